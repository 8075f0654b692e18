import { expect, test } from "vitest";
import { jsonValuesMax } from "../src/json-text.ts";
import { edgeOf, ruleOf } from "./transcoding.ts";

const whole = edgeOf("POST /v1/{name=shelves/*} *", "POST /v1/nested/{book.author.full_name} *");
const field = edgeOf(
  "PATCH /v1/{book.name=shelves/*} book",
  "PUT /v1/{name}/books books",
  "PUT /v1/ids request_id",
);
const none = edgeOf("GET /v1/{name}", "DELETE /v1/{name}");
const rich = edgeOf({ input: "Rich", rule: { pattern: { case: "post", value: "/v1/rich" }, body: "*" } });

test("with the body `*` every field that the path does not set comes from the body", () => {
  const body = { book: { mainTitle: "Faust" }, requestId: "r" };
  expect(whole.send("POST /v1/shelves/1", body).json).toEqual({ name: "shelves/1", ...body });
});

test("with the body `*` a query parameter is refused by name, known or not", () => {
  for (const name of ["requestId", "request_id", "name", "nope", "book.name"]) {
    expect(whole.send(`POST /v1/shelves/1?${name}=a`, {})).toMatchObject({
      kind: "invalid_argument",
      param: name,
    });
  }
  expect(whole.send("POST /v1/shelves/1?", {}).kind).toBe("message");
});

test.each([
  [{ name: "shelves/2" }, "name"],
  [{ name: "shelves/1" }, "name"],
  [{ name: null }, "name"],
])("a body with a field that the path sets is refused, even if the values are equal: %o", (body, param) => {
  const sent = whole.send("POST /v1/shelves/1", body);
  expect(sent).toMatchObject({
    kind: "invalid_argument",
    param,
    words: expect.stringContaining("set by the path"),
  });
});

test.each([
  [{ book: { author: { fullName: "b" } } }, "book.author.fullName"],
  [{ book: { author: { full_name: "a" } } }, "book.author.full_name"],
])("the same is true of a nested field, named as the caller spelled it: %o", (body, param) => {
  expect(whole.send("POST /v1/nested/a", body)).toMatchObject({ kind: "invalid_argument", param });
});

test("a nested path creates the messages above it and keeps what the body sets beside it", () => {
  expect(whole.send("POST /v1/nested/a", {}).json).toEqual({ book: { author: { fullName: "a" } } });
  expect(whole.send("POST /v1/nested/a", { book: null }).json).toEqual({
    book: { author: { fullName: "a" } },
  });
  const book = { name: "n", author: { birthYear: 1749 } };
  expect(whole.send("POST /v1/nested/a", { book }).json).toEqual({
    book: { name: "n", author: { fullName: "a", birthYear: 1749 } },
  });
});

test("a body that sets another member of a oneof that the path sets is refused by that member's path", () => {
  const edge = edgeOf("POST /v1/{book.donor.full_name} *");
  const sent = edge.send("POST /v1/a", { book: { number: "1" } });
  expect(sent).toMatchObject({ kind: "invalid_argument", param: "book.number" });
});

test("with a body field the body is that field, and the query sets the others", () => {
  expect(field.send("PATCH /v1/shelves/1?request_id=r", { mainTitle: "Faust" }).json).toEqual({
    book: { name: "shelves/1", mainTitle: "Faust" },
    requestId: "r",
  });
});

test("a body field may be a list or a scalar", () => {
  expect(field.send("PUT /v1/a/books", [{ name: "x" }, {}]).json).toEqual({
    name: "a",
    books: [{ name: "x" }, {}],
  });
  expect(field.send("PUT /v1/ids", '"r"').json).toEqual({ requestId: "r" });
});

test("a fault in a body field is named as the caller spelled it", () => {
  expect(field.send("PATCH /v1/shelves/1", { main_title: 1 })).toMatchObject({ param: "main_title" });
  expect(field.send("PATCH /v1/shelves/1", { name: "x" })).toMatchObject({ param: "name" });
  expect(field.send("PUT /v1/a/books", [{}, { tags: ["a", 1] }])).toMatchObject({ param: "[1].tags[1]" });
  expect(field.send("PUT /v1/a/books", {})).toMatchObject({
    param: null,
    words: "The body must be an array.",
  });
});

test("an empty body or null leaves a body field absent", () => {
  expect(field.send("PUT /v1/a/books").json).toEqual({ name: "a" });
  expect(field.send("PUT /v1/a/books", "null").json).toEqual({ name: "a" });
});

test("a body of null does not set its oneof, so another member may be set", () => {
  const edge = edgeOf("PUT /v1/branch branch");
  expect(edge.send("PUT /v1/branch?depot=1", "null").json).toEqual({ depot: 1 });
  expect(edge.send("PUT /v1/branch?depot=1", '"a"')).toMatchObject({
    kind: "invalid_argument",
    param: "depot",
  });
});

test("a null that is a value is a member of its oneof", () => {
  const edge = edgeOf({ input: "Rich", rule: ruleOf("POST /v1/{genre_choice} *") });
  expect(edge.send("POST /v1/1", { plainChoice: null }).json).toEqual({ genreChoice: "GENRE_POETRY" });
  expect(edge.send("POST /v1/1", { nullChoice: null })).toMatchObject({ param: "nullChoice" });
});

test("the query can't set what the body or the path sets", () => {
  for (const name of ["book", "book.mainTitle", "book.name"]) {
    const sent = field.send(`PATCH /v1/shelves/1?${name}=x`, {});
    expect(sent).toMatchObject({ kind: "invalid_argument", param: name });
  }
  const words = expect.stringContaining("set by the path");
  expect(none.send("GET /v1/a?name=a")).toMatchObject({ kind: "invalid_argument", param: "name", words });
});

test("a method without a body refuses one", () => {
  expect(none.send("DELETE /v1/a", {})).toMatchObject({ kind: "invalid_argument", param: null });
  expect(none.send("DELETE /v1/a", " ")).toMatchObject({ kind: "invalid_argument" });
  expect(none.send("DELETE /v1/a").json).toEqual({ name: "a" });
});

test("an empty body is an empty message", () => {
  expect(whole.send("POST /v1/shelves/1", "").json).toEqual({ name: "shelves/1" });
});

test.each(["null", "[]", '"a"', "1", "true"])("a body that is not an object is refused: %s", (body) => {
  expect(whole.send("POST /v1/shelves/1", body)).toMatchObject({ kind: "invalid_argument", param: null });
});

test.each([
  "{",
  "{}x",
  "{} {}",
  " ",
  "{a:1}",
  "{'a':1}",
  '{"a":1,}',
  "\ufeff{}",
  "NaN",
  "// c\n{}",
  '{"a":"\n"}',
])("a body that is not JSON is invalid: %j", (body) => {
  const sent = whole.send("POST /v1/shelves/1", body);
  expect(sent).toMatchObject({ kind: "invalid_json", param: null });
});

test("bytes that are not UTF-8 are invalid JSON, and so is UTF-16", () => {
  for (const bytes of [[0xff], [0x22, 0xc3, 0x22], [0xed, 0xa0, 0x80]]) {
    expect(whole.send("POST /v1/shelves/1", Uint8Array.from(bytes)).kind).toBe("invalid_json");
  }
  expect(whole.send("POST /v1/shelves/1", new Uint8Array(Buffer.from("{}", "utf16le"))).kind).toBe(
    "invalid_json",
  );
});

test("the error about a body never repeats the body", () => {
  const { words } = whole.send("POST /v1/shelves/1", '{"requestId": secret}');
  expect(words).not.toContain("secret");
});

test.each([
  ["of the message", '{"requestId":"a","requestId":"b"}'],
  ["with equal values", '{"requestId":"a","requestId":"a"}'],
  ["after unescaping", String.raw`{"requestId":"a","request\u0049d":"b"}`],
  ["of an unknown field", '{"nope":1,"nope":2}'],
  ["that is empty", '{"":1,"":2}'],
  ["of an object within", '{"book":{"author":{"fullName":"a","fullName":"b"}}}'],
  ["in a value that the second replaces", '{"book":{"name":"a","mainTitle":"b"},"book":{}}'],
  ["beside strings full of signs", String.raw`{"requestId":"\":\\","requestId":":"}`],
  ["that is __proto__", '{"__proto__":1,"__proto__":2}'],
])("a name that an object has twice is invalid JSON: %s", (_, body) => {
  expect(whole.send("POST /v1/shelves/1", body)).toMatchObject({
    kind: "invalid_json",
    words: expect.stringContaining("one name twice"),
  });
});

test("names are compared within one object, and signs within strings don't count", () => {
  for (const requestId of ['":', '\\"::"', "\\", "é:\u2028:", '{"requestId":1,"requestId":2}']) {
    const body = { requestId, book: { name: ":", author: { fullName: requestId } } };
    expect(whole.send("POST /v1/shelves/1", body).json).toMatchObject(body);
  }
  const books = [{ name: "a" }, { name: "b" }];
  expect(field.send("PUT /v1/n/books", books).json).toMatchObject({ books });
});

test("a body of any depth is searched for repeated names", () => {
  const deep = `${'{"a":'.repeat(19_000)}{"b":1,"b":2}${"}".repeat(19_000)}`;
  expect(whole.send("POST /v1/shelves/1", deep).kind).toBe("invalid_json");
});

test("one field under both of its names is refused", () => {
  expect(whole.send("POST /v1/shelves/1", { requestId: "a", request_id: "b" })).toMatchObject({
    kind: "invalid_argument",
    param: "requestId",
  });
});

test.each([
  [{ txt: "a" }, "txt"],
  [{ book: { nope: 1 } }, "book.nope"],
  [{ books: [{}, { sequel: { nope: 1 } }] }, "books[1].sequel.nope"],
  [{ "[ext.name]": 1 }, "[ext.name]"],
  [JSON.parse('{"__proto__": {"requestId": "r"}}'), "__proto__"],
  [{ "": 1 }, '""'],
  [{ book: { "": 1 } }, 'book.""'],
  [{ constructor: 1 }, "constructor"],
  [{ toString: 1 }, "toString"],
  [{ $typeName: "x" }, "$typeName"],
])("an unknown field is refused by name: %o", (body, param) => {
  const sent = whole.send("POST /v1/shelves/1", body);
  expect(sent).toMatchObject({ kind: "invalid_argument", param, words: expect.stringContaining("no field") });
});

test("no key of a body reaches an object's prototype", () => {
  const send = rich.send(
    "POST /v1/rich",
    '{"strings":{"__proto__":"x"},"struct":{"__proto__":{"polluted":true}}}',
  );
  expect(send.kind).toBe("message");
  expect(JSON.stringify(send.json)).toContain('"__proto__":"x"');
  expect(({} as Record<string, unknown>).polluted).toBeUndefined();
});

test.each([
  [{ requestId: 1 }, "requestId", "requestId must be a string."],
  [{ request_id: 1 }, "request_id", "request_id must be a string."],
  [{ requestId: "\ud800" }, "requestId", expect.stringContaining("surrogate")],
  [{ book: "x" }, "book", "book must be an object."],
  [{ book: [] }, "book", "book must be an object."],
  [{ books: {} }, "books", "books must be an array."],
  [{ books: [null] }, "books[0]", "books[0] must not be null."],
  [{ book: { labels: { a: 1 } } }, "book.labels.a", "book.labels.a must be a string."],
  [{ book: { labels: { a: null } } }, "book.labels.a", "book.labels.a must not be null."],
  [{ book: { labels: [] } }, "book.labels", "book.labels must be an object."],
  [
    { book: { author: { birth_year: 1.5 } } },
    "book.author.birth_year",
    expect.stringContaining("whole number"),
  ],
  [{ book: { remark: { a: ["x", "\udc00"] } } }, "book.remark", expect.stringContaining("surrogate")],
  [{ branch: "a", depot: 1 }, "branch", "branch and depot can't both be set."],
  [{ book: { donor: {}, number: 1 } }, "book.donor", "book.donor and number can't both be set."],
])("a wrong value is refused with its name and what it must be: %o", (body, param, words) => {
  // JSON.stringify escapes a lone surrogate, so the bytes of the body are valid UTF-8.
  expect(whole.send("POST /v1/shelves/1", body)).toMatchObject({ kind: "invalid_argument", param, words });
});

test("a message nested too deeply is refused, however deep, and one at the bound is not", () => {
  const nested = (depth: number) => `{"book":${'{"sequel":'.repeat(depth)}{}${"}".repeat(depth)}}`;
  expect(whole.send("POST /v1/shelves/1", nested(98)).kind).toBe("message");
  for (const depth of [99, 19_000]) {
    const sent = whole.send("POST /v1/shelves/1", nested(depth));
    expect(sent).toMatchObject({
      kind: "invalid_argument",
      words: expect.stringContaining("deeper than 100"),
    });
    expect(sent.param?.startsWith("book.sequel.")).toBe(true);
  }
});

test("reading large integers again does not get around the bound on depth", () => {
  const deep = `${'{"sequel":'.repeat(19_000)}{}${"}".repeat(19_000)}`;
  const sent = whole.send("POST /v1/shelves/1", `{"book":{"number":9007199254740993,"sequel":${deep}}}`);
  expect(sent).toMatchObject({ kind: "invalid_argument", words: expect.stringContaining("deeper than 100") });
});

test.each([
  ["arrays in arrays", `${"[".repeat(jsonValuesMax)}${"]".repeat(jsonValuesMax)}`],
  ["objects in objects", `${'{"a":'.repeat(jsonValuesMax)}0${"}".repeat(jsonValuesMax)}`],
  ["objects side by side", `[{}${",{}".repeat(jsonValuesMax)}]`],
  ["an array that does not end", `${"[".repeat(jsonValuesMax)}`],
])("a body with more values than are read in one turn is refused before it is read: %s", (_, value) => {
  expect(rich.send("POST /v1/rich", `{"value":${value}}`)).toMatchObject({
    kind: "invalid_argument",
    words: expect.stringContaining(`more than ${jsonValuesMax} values`),
  });
});

test("as many values as are read in one turn are read, whatever signs their texts have", () => {
  const texts = Array.from({ length: jsonValuesMax - 3 }, () => '",[{\\');
  expect(rich.send("POST /v1/rich", JSON.stringify({ value: texts })).kind).toBe("message");
  expect(rich.send("POST /v1/rich", JSON.stringify({ value: [...texts, ""] })).kind).toBe("message");
  expect(rich.send("POST /v1/rich", JSON.stringify({ value: [...texts, "", ""] })).kind).toBe(
    "invalid_argument",
  );
});

test("large integers are exact down to the deepest allowed message", () => {
  const nested = (depth: number) =>
    `${'{"riches":{"a":'.repeat(depth)}{"jsText":9007199254740993}${"}}".repeat(depth)}`;
  expect(JSON.stringify(rich.send("POST /v1/rich", nested(99)).json)).toContain("9007199254740993");
  expect(rich.send("POST /v1/rich", nested(100))).toMatchObject({ kind: "invalid_argument" });
});

test("free JSON nested too deeply is refused, and at the bound it is read", () => {
  const nested = (depth: number) => `{"value":${"[".repeat(depth)}${"]".repeat(depth)}}`;
  expect(rich.send("POST /v1/rich", nested(99)).kind).toBe("message");
  for (const depth of [100, 19_000]) {
    expect(rich.send("POST /v1/rich", nested(depth))).toMatchObject({
      kind: "invalid_argument",
      words: expect.stringContaining("deeper than 100"),
    });
  }
});

test.each([
  undefined,
  "",
  "application/json",
  "Application/JSON; charset=UTF-8",
  'application/json;charset="utf-8"',
])("a JSON body is accepted with the type %s", (contentType) => {
  const headers = contentType === undefined ? {} : { contentType };
  expect(whole.send("POST /v1/shelves/1", {}, headers).kind).toBe("message");
});

test.each([
  "text/plain",
  "application/x-www-form-urlencoded",
  "application/jsonx",
  "application/json, application/json",
  "application/json; charset=utf-16",
  "application/merge-patch+json",
  "json",
  ";",
])("a JSON body is refused with the type %s", (contentType) => {
  expect(whole.send("POST /v1/shelves/1", {}, { contentType })).toMatchObject({
    kind: "unsupported_media_type",
    param: null,
    words: expect.stringContaining("application/json"),
  });
});

test("a compressed body is refused, `identity` is accepted", () => {
  for (const contentEncoding of ["gzip", "br", "identity, gzip", "x"]) {
    expect(whole.send("POST /v1/shelves/1", {}, { contentEncoding }).kind).toBe("unsupported_media_type");
  }
  expect(whole.send("POST /v1/shelves/1", {}, { contentEncoding: "Identity" }).kind).toBe("message");
});

test("type and encoding can be checked before the body is read, and come before errors in the body", () => {
  const match = whole.transcoder.match("POST", "/v1/shelves/1");
  if (match.kind !== "found") throw new Error("no route");
  const text = { contentType: "text/plain", contentEncoding: undefined };
  const json = { contentType: "application/json", contentEncoding: undefined };
  expect(whole.transcoder.checkMediaType(match.route, text)?.problem).toBe("unsupported_media_type");
  expect(whole.transcoder.checkMediaType(match.route, json)).toBeUndefined();
  expect(whole.send("POST /v1/shelves/1?x=1", "{", text).kind).toBe("unsupported_media_type");
});

test.each([undefined, ""])("an empty body has no type to refuse, and no compression: %o", (body) => {
  const headers = { contentType: "application/x-www-form-urlencoded", contentEncoding: "gzip" };
  expect(whole.send("POST /v1/shelves/1", body, headers).json).toEqual({ name: "shelves/1" });
});

test("a field that is not there is told which there are, without those of the path", () => {
  const sent = whole.send("POST /v1/shelves/1", { titel: "Faust" });
  expect(sent.param).toBe("titel");
  expect(sent.words).toMatch(/^titel is no field here\. Use one of: .*\bbook\b/);
  expect(sent.words).not.toMatch(/\bname\b/);
  const inBook = whole.send("POST /v1/shelves/1", { book: { titel: "Faust" } });
  expect(inBook).toMatchObject({ param: "book.titel", words: expect.stringContaining("mainTitle") });
});

test.each([
  [
    { plain: { timestamp: "tomorrow" } },
    "plain.timestamp",
    'must be a time in RFC 3339, as "2030-01-31T12:00:00Z".',
  ],
  [
    { plain: { duration: 30 } },
    "plain.duration",
    'must be a number of seconds and its unit s, as "30s" or "1.5s".',
  ],
  [{ plain: { int32: "x" } }, "plain.int32", "must be a whole number, as 10."],
])("a malformed value is told its form, with an example as JSON has it: %o", (body, param, words) => {
  expect(rich.send("POST /v1/rich", body)).toMatchObject({ param, words: `${param} ${words}` });
});

test("without a body its headers do not matter", () => {
  expect(none.send("GET /v1/a", undefined, { contentType: "text/plain", contentEncoding: "gzip" }).kind).toBe(
    "message",
  );
});
