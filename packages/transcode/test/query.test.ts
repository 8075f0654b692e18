import fc from "fast-check";
import { expect, test } from "vitest";
import { edgeOf } from "./transcoding.ts";

const plain = edgeOf({ input: "Plain", rule: { pattern: { case: "get", value: "/v1/plain" } } });
const book = edgeOf("GET /v1/{name}", "GET /v1/depots/{depot}");
const rich = edgeOf({ input: "Rich", rule: { pattern: { case: "get", value: "/v1/rich" } } });
const ask = (query: string) => plain.send(`GET /v1/plain?${query}`);

test.each([
  ["optional_string=a", { optionalString: "a" }],
  ["optionalString=a", { optionalString: "a" }],
  ["sub_plain.optional_int32=1", { subPlain: { optionalInt32: 1 } }],
  ["subPlain.optionalInt32=1", { subPlain: { optionalInt32: 1 } }],
  [
    "subPlain.sub_plain.bool=true&sub_plain.subPlain.string=a",
    { subPlain: { subPlain: { bool: true, string: "a" } } },
  ],
  ["strings=a&strings=b&strings=", { strings: ["a", "b", ""] }],
  ["int64s=1&string=x&int64s=2", { int64s: ["1", "2"], string: "x" }],
  ["genres=GENRE_POETRY&genres=2", { genres: ["GENRE_POETRY", "GENRE_DRAMA"] }],
  ["optionalString", { optionalString: "" }],
  ["optionalString=", { optionalString: "" }],
  ["&&string=a&", { string: "a" }],
  ["s%74ring=%61", { string: "a" }],
  ["string=a=b?c", { string: "a=b?c" }],
])("the query %s is read", (query, json) => {
  expect(ask(query)).toMatchObject({ kind: "message", json });
});

test("a plus stays a plus, and so does %2B; a space is %20", () => {
  expect(ask("string=a+b%2Bc%20d").json).toEqual({ string: "a+b+c d" });
});

test.each([
  ["bool", "true", true],
  ["int32", "-2147483648", -2147483648],
  ["sint32", "7", 7],
  ["sfixed32", "-7", -7],
  ["uint32", "4294967295", 4294967295],
  ["fixed32", "0007", 7],
  ["int64", "-9223372036854775808", "-9223372036854775808"],
  ["int64", "9007199254740993", "9007199254740993"],
  ["sint64", "9007199254740993", "9007199254740993"],
  ["sfixed64", "9007199254740993", "9007199254740993"],
  ["uint64", "18446744073709551615", "18446744073709551615"],
  ["fixed64", "9007199254740993", "9007199254740993"],
  ["float", "1.5", 1.5],
  ["double", "-1e300", -1e300],
  ["double", "NaN", "NaN"],
  ["float", "-Infinity", "-Infinity"],
  ["genre", "GENRE_DRAMA", "GENRE_DRAMA"],
  ["genre", "1", "GENRE_POETRY"],
  ["bytes", "%2B/8%3D", "+/8="],
  ["bytes", "-_8", "+/8="],
  ["bytes", "-_8=", "+/8="],
  ["timestamp", "2024-02-29T12:00:00.5%2B01:00", "2024-02-29T11:00:00.500Z"],
  ["duration", "-1.5s", "-1.500s"],
  ["fieldMask", "a,bC.d", "a,bC.d"],
  ["boolValue", "false", false],
  ["stringValue", "", ""],
  ["int64Value", "9007199254740993", "9007199254740993"],
  ["doubleValue", "0.5", 0.5],
  ["bytesValue", "-_8", "+/8="],
])("the value is exact: %s=%s", (name, text, json) => {
  expect(ask(`${name}=${text}`)).toMatchObject({ kind: "message", json: { [name]: json } });
});

test.each([
  ...["True", "1", "", "yes"].map((text) => ["bool", text]),
  ...["", "a", "1.5", "2147483648", "-2147483649", "0x10", "%201", "1%20", "+1", "1_0", "--1"].map((text) => [
    "int32",
    text,
  ]),
  ...["-1", "4294967296"].map((text) => ["uint32", text]),
  ...["9223372036854775808", "1.0", "1e3", "0x10", "", "9".repeat(5000)].map((text) => ["int64", text]),
  ...["-1", "18446744073709551616"].map((text) => ["uint64", text]),
  ...["", "nan", "inf", "1e39", "0x1", "1.", ".5"].map((text) => ["float", text]),
  ...["1e400", "Infinity%20", "one"].map((text) => ["double", text]),
  ...["GENRE_NOPE", "poetry", "", "1.5", "2147483648"].map((text) => ["genre", text]),
  ...["!", "A", "AAA%3D%3D", "A%3D%3D%3D", "AA%3DA", "AA%20AA"].map((text) => ["bytes", text]),
  ...[
    "2024-02-30T00:00:00Z",
    "2024-01-01",
    "2024-01-01T24:00:00Z",
    "2024-01-01T00:00:60Z",
    "0000-01-01T00:00:00Z",
  ]
    .concat([
      "2024-01-01T00:00:00",
      "2024-13-01T00:00:00Z",
      "9999-12-31T23:59:59-01:00",
      "0001-01-01T00:00:00%2B01:00",
    ])
    .concat(["2024-01-01T00:00:00.1234567890Z", "null"])
    .map((text) => ["timestamp", text]),
  ...["1", "1.5", "315576000001s", "1.0000000001s", "1sx", "s", "+1s"].map((text) => ["duration", text]),
  ...["a_b", "a,", "a..b", "%20a"].map((text) => ["fieldMask", text]),
  ...["x", "1"].map((text) => ["boolValue", text]),
  ["int64Value", "null"],
])("%s=%s is refused by its name", (name, text) => {
  expect(ask(`${name}=${text}`)).toMatchObject({ kind: "invalid_argument", param: name });
});

test.each([
  ["int32", "x", "must be a whole number, as 10."],
  ["int32", "2147483648", "must be at most 2147483647."],
  ["uint32", "-1", "must be at least 0."],
  ["int64", "1.5", "must be a whole number, as 10."],
  ["uint64", "18446744073709551616", "must be at most 18446744073709551615."],
  ["int64Value", "x", "must be a whole number, as 10."],
  ["boolValue", "yes", "must be true or false."],
  ["duration", "30", "must be a number of seconds and its unit s, as 30s or 1.5s."],
  ["duration", "999999999999s", "must be at most 315576000000 seconds."],
  ["timestamp", "tomorrow", "must be a time in RFC 3339, as 2030-01-31T12:00:00Z."],
  ["fieldMask", "a_b", "must be field paths in lowerCamelCase joined by commas, as title,author.name."],
])("%s=%s is told what it must be, with an example as a query has it", (name, text, words) => {
  expect(ask(`${name}=${text}`)).toMatchObject({ param: name, words: `${name} ${words}` });
});

test("an unknown parameter is told which there are: not those of the path or the body", () => {
  const edge = edgeOf("GET /v1/{name}", "PATCH /v1/{name} book");
  expect(edge.send("GET /v1/a?nope=1").words).toMatch(/^nope is no parameter here\. Use one of: book, /);
  expect(edge.send("GET /v1/a?book.titel=1").words).toContain("mainTitle");
  expect(edge.send("PATCH /v1/a?nope=1", {}).words).not.toContain("book,");
  expect(edge.send("GET /v1/a?name.x=1").words).toBe("name.x is no parameter here. Remove it.");
});

test.each([
  "nope=1",
  "string.x=1",
  "timestamp.seconds=1",
  "strings.x=1",
  "sub_plain.nope=1",
  "=1",
  "Bool=true",
  "string[]=a",
])("an unknown parameter is refused: %s", (query) => {
  const param = query.split("=")[0] || null;
  expect(ask(query)).toMatchObject({ kind: "invalid_argument", param });
});

test("a singular field given twice is refused, in either spelling", () => {
  for (const query of [
    "string=a&string=a",
    "optionalInt32=1&optional_int32=1",
    "subPlain.bool=true&sub_plain.bool=true",
  ]) {
    const param = query.split("&")[1]?.split("=")[0];
    expect(ask(query)).toMatchObject({
      kind: "invalid_argument",
      param,
      words: expect.stringContaining("twice"),
    });
  }
});

test("two members of a oneof are refused, also if one of them is in the path", () => {
  expect(ask("firstChoice=a&secondChoice=1")).toMatchObject({
    kind: "invalid_argument",
    param: "secondChoice",
  });
  expect(book.send("GET /v1/depots/1?branch=a")).toMatchObject({ kind: "invalid_argument", param: "branch" });
});

test.each([
  "plain=x",
  "plain=",
  "plains=x",
  "plains.bool=true",
  "strings.a=x",
  "strings=x",
  "struct=x",
  "value=x",
  "any=x",
])("a field that a query can't hold is refused: %s", (query) => {
  expect(rich.send(`GET /v1/rich?${query}`)).toMatchObject({
    kind: "invalid_argument",
    param: query.split("=")[0],
  });
});

test.each(["string=%zz", "string=%ff", "%zz=a", "string=é", "string=%"])(
  "an escape that can't be decoded is refused with the name of the parameter: %s",
  (query) => {
    const sent = ask(query);
    expect(sent).toMatchObject({ kind: "invalid_argument", words: expect.stringContaining("escape") });
    expect(sent.param).toBe(query.split("=")[0]);
  },
);

test("a name nested deeper than messages may be nested is refused", () => {
  expect(ask(`${"subPlain.".repeat(99)}bool=true`).kind).toBe("message");
  expect(ask(`${"subPlain.".repeat(100)}bool=true`)).toMatchObject({ kind: "invalid_argument" });
});

test("a bad value in the path is refused by the field's name", () => {
  expect(book.send("GET /v1/depots/x")).toMatchObject({ kind: "invalid_argument", param: "depot" });
  expect(book.send("GET /v1/depots/7").json).toEqual({ depot: 7 });
});

test("any text arrives unchanged through a query and a path", () => {
  const text = fc.string({ unit: "grapheme", minLength: 1 });
  fc.assert(
    fc.property(text, text, (name, string) => {
      expect(ask(`string=${encodeURIComponent(string)}`).json).toEqual({ string });
      expect(book.send(`GET /v1/${encodeURIComponent(name)}`).json).toEqual({ name });
    }),
  );
});
