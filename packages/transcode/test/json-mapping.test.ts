import { create, fromJson, type JsonValue } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { createTranscoder } from "../src/transcoder.ts";
import { edgeOf, ruleOf, serviceOf, testType, testTypes } from "./transcoding.ts";

const rule = ruleOf("POST /v1/messages *");
const plain = edgeOf({ input: "Plain", output: "Plain", rule });
const rich = edgeOf({ input: "Rich", output: "Rich", rule });

const sendPlain = (body: unknown) => plain.send("POST /v1/messages", body);
const sendRich = (body: unknown) => rich.send("POST /v1/messages", body);

/** Returns the parsed body of a response with these fields. */
function answered(edge: typeof rich, type: string, json: JsonValue): JsonValue {
  const binding = edge.transcoder.bindings[0]!;
  const message = fromJson(testType(type), json, { registry: testTypes });
  const { contentType, body } = edge.transcoder.encodeResponse(binding, message);
  expect(contentType).toBe("application/json");
  return JSON.parse(String(body));
}

test("a request may use JSON names and proto names", () => {
  const json = { optionalString: "a", subPlain: { optionalInt32: 1 } };
  expect(sendPlain(json).json).toEqual(json);
  expect(sendPlain({ optional_string: "a", sub_plain: { optional_int32: 1 } }).json).toEqual(json);
  expect(sendRich({ "odd-name": "a" }).json).toEqual({ "odd-name": "a" });
  expect(sendRich({ weird: "a" }).json).toEqual({ "odd-name": "a" });
});

test("64-bit integers keep every digit, sent as numbers or as strings", () => {
  const body = `{
    "int64": -9223372036854775808, "uint64": "18446744073709551615", "sint64": 9007199254740993, "fixed64": 7,
    "int64s": [9007199254740993, "9007199254740993", 1], "int64Value": 9007199254740995,
    "subPlain": {"sfixed64": 1000000000000000001}
  }`;
  expect(sendPlain(body).json).toEqual({
    int64: "-9223372036854775808",
    uint64: "18446744073709551615",
    sint64: "9007199254740993",
    fixed64: "7",
    int64s: ["9007199254740993", "9007199254740993", "1"],
    int64Value: "9007199254740995",
    subPlain: { sfixed64: "1000000000000000001" },
  });
});

test("64-bit integers keep every digit in maps, lists of messages and wrappers; a number in free JSON stays a number", () => {
  const body = `{
    "int64s": {"1": 9007199254740993}, "plains": [{"int64": 9007199254740993}], "riches": {"a": {"jsText": 9007199254740993}},
    "int64Values": [9007199254740993], "value": 9007199254740992, "struct": {"a": 9007199254740992},
    "plain": {"double": 9007199254740993, "uint64": 1e18}
  }`;
  expect(sendRich(body).json).toEqual({
    int64s: { "1": "9007199254740993" },
    plains: [{ int64: "9007199254740993" }],
    riches: { a: { jsText: "9007199254740993" } },
    int64Values: ["9007199254740993"],
    value: 9007199254740992,
    struct: { a: 9007199254740992 },
    plain: { double: 9007199254740992, uint64: "1000000000000000000" },
  });
});

test("64-bit integers keep every digit in a body field", () => {
  const ids = edgeOf({ input: "Plain", rule: ruleOf("POST /v1/ids int64s") });
  expect(ids.send("POST /v1/ids", "[9007199254740993]").json).toEqual({ int64s: ["9007199254740993"] });
});

test.each([
  ["int64", "9223372036854775808"],
  ["int64", "1e19"],
  ["int64", "1.5"],
  ["int64", "1e400"],
  ["int64", "9".repeat(100)],
  ["uint64", "-1"],
  ["uint64", "-9007199254740993"],
  ["int32", "2147483648"],
  ["int32", "true"],
  ["int32", '"1.5"'],
  ["float", "1e39"],
  ["double", "1e400"],
  ["double", '"0x10"'],
  ["bool", '"true"'],
  ["bool", "1"],
  ["string", "true"],
  ["bytes", '"*"'],
  ["bytes", "1"],
  ["genre", '"NOPE"'],
  ["genre", "1.5"],
  ["genre", "true"],
  ["timestamp", "0"],
  ["timestamp", '"2024-02-30T00:00:00Z"'],
  ["timestamp", "{}"],
  ["duration", '"1"'],
  ["duration", "1"],
  ["fieldMask", '"a_b"'],
  ["fieldMask", "[]"],
  ["boolValue", '"x"'],
  ["stringValue", "{}"],
  ["subPlain", '"x"'],
  ["strings", '"x"'],
])("the field %s is refused as %s", (name, json) => {
  expect(sendPlain(`{"${name}":${json}}`)).toMatchObject({ kind: "invalid_argument", param: name });
});

test.each([
  [{ int64s: { x: "1" } }, "int64s.x"],
  [{ int64s: { "01": "1" } }, "int64s.01"],
  [{ int64s: { "1": "x" } }, "int64s.1"],
  [{ genres: { yes: 1 } }, "genres.yes"],
  [{ genres: { true: "NOPE" } }, "genres.true"],
  [{ riches: { a: { plains: [{ nope: 1 }] } } }, "riches.a.plains[0].nope"],
  [{ timestamps: ["2024-01-01T00:00:00Z", "x"] }, "timestamps[1]"],
  [{ struct: [] }, "struct"],
  [{ list: {} }, "list"],
  [{ value: { "\ud800": 1 } }, "value"],
  [{ nullValue: 1 }, "nullValue"],
  [{ any: { "@type": "type.googleapis.com/nope.Nope" } }, "any"],
  [{ any: { "@type": "type.googleapis.com/transcode.test.Plain", nope: 1 } }, "any"],
  [{ any: {}, empty: { x: 1 } }, "empty.x"],
  [{ plainChoice: {}, genreChoice: 1 }, "plainChoice"],
])("an error in a nested value names its path: %o", (body, param) => {
  expect(sendRich(body)).toMatchObject({ kind: "invalid_argument", param });
});

test.each([
  ['{"value":{"a":1e400}}', "value"],
  ['{"struct":{"a":[9007199254740993]}}', "struct"],
  ['{"list":[-12345678901234567890]}', "list"],
  ['{"values":[1,9007199254740993]}', "values"],
  ['{"riches":{"a":{"struct":{"":9007199254740993}}}}', "riches.struct"],
])("a number in free JSON that a double changes is refused: %s", (body, param) => {
  const words = `${param} has a number that a double can't hold. Send it as a string.`;
  expect(sendRich(body)).toMatchObject({ kind: "invalid_argument", param, words });
});

test.each([
  "[9007199254740992]",
  "[1e22,123e45,0.1234567890123456789,-0]",
  '["\\"9007199254740993"]',
  "[70234778529767930]",
])("a number in free JSON that comes back as it went, and rounded fractions are read: %s", (list) =>
  expect(sendRich(`{"list":${list}}`).json).toEqual({ list: JSON.parse(list) }),
);

test("an enum may be a name or a number, and an open enum keeps unknown numbers", () => {
  expect(sendPlain({ genre: "GENRE_DRAMA" }).json).toEqual({ genre: "GENRE_DRAMA" });
  expect(sendPlain({ genre: 2 }).json).toEqual({ genre: "GENRE_DRAMA" });
  expect(sendPlain({ genre: 99 }).json).toEqual({ genre: 99 });
});

test("numbers may be strings and have exponents, floats may be NaN and Infinity", () => {
  const body = {
    int32: "12",
    uint32: 1.0,
    sint32: "1e3",
    float: "1.5",
    double: "-Infinity",
    doubleValue: "NaN",
  };
  expect(sendPlain(body).json).toEqual({
    int32: 12,
    uint32: 1,
    sint32: 1000,
    float: 1.5,
    double: "-Infinity",
    doubleValue: "NaN",
  });
});

test("null means the same as absent", () => {
  const names = testType("Plain").fields.map((field) => field.jsonName);
  expect(sendPlain(Object.fromEntries(names.map((name) => [name, null]))).json).toEqual({});
  expect(sendRich({ plainChoice: null, stringChoice: "a", genreChoice: null }).json).toEqual({
    stringChoice: "a",
  });
});

test("null is a value of Value and NullValue", () => {
  expect(sendRich({ value: null, values: [null, 1], struct: { a: null } }).json).toEqual({
    value: null,
    values: [null, 1],
    struct: { a: null },
  });
  expect(sendRich({ nullChoice: null }).json).toEqual({ nullChoice: null });
  expect(sendRich({ nullChoice: null, genreChoice: 1 })).toMatchObject({ kind: "invalid_argument" });
});

test("an optional field that is set to its default stays set", () => {
  expect(sendPlain({ optionalString: "", optionalInt32: 0 }).json).toEqual({
    optionalString: "",
    optionalInt32: 0,
  });
  expect(sendPlain({ stringValue: "", boolValue: false }).json).toEqual({
    stringValue: "",
    boolValue: false,
  });
});

test("Any is read through the registry, and refused without one", () => {
  const any = { "@type": "type.googleapis.com/transcode.test.Plain", string: "a" };
  expect(sendRich({ any }).json).toEqual({ any });
  const unregistered = createTranscoder([serviceOf({ input: "Rich", rule })]);
  const match = unregistered.match("POST", "/v1/messages");
  if (match.kind !== "found") throw new Error("no route");
  const body = new TextEncoder().encode(JSON.stringify({ any }));
  const parts = { contentType: undefined, contentEncoding: undefined, body };
  expect(unregistered.decodeRequest(match.route, parts)).toMatchObject({
    problem: "invalid_argument",
    param: "any",
  });
});

test("a response has every field at its default, in lowerCamelCase, and no field that is not set", () => {
  const json = answered(plain, "Plain", {});
  expect(json).toMatchObject({
    string: "",
    bool: false,
    int64: "0",
    genre: "GENRE_UNSPECIFIED",
    strings: [],
    bytes: "",
  });
  for (const absent of ["optionalString", "subPlain", "timestamp", "boolValue", "firstChoice"]) {
    expect(json).not.toHaveProperty(absent);
  }
  expect(answered(rich, "Rich", {})).toMatchObject({ strings: {}, plains: [], "odd-name": "", jsText: "0" });
});

test("the values of a response have their ProtoJSON form", () => {
  const json = {
    bytes: "+/8=",
    uint64: "18446744073709551615",
    double: "NaN",
    genres: ["GENRE_POETRY", 99],
    timestamp: "2024-02-29T11:00:00.000000001Z",
    duration: "1.500s",
    fieldMask: "a,bC",
    int64Value: "1",
    bytesValue: "AA==",
    optionalString: "",
  };
  expect(answered(plain, "Plain", json)).toMatchObject(json);
  expect(answered(plain, "Plain", { timestamp: "2024-01-01T00:00:00Z" })).toMatchObject({
    timestamp: "2024-01-01T00:00:00Z",
  });
});

test("with a response body only that field is sent", () => {
  const only = (responseBody: string, json: JsonValue) =>
    answered(edgeOf({ rule: { ...ruleOf("GET /v1/a"), responseBody } }), "BookReply", json);
  expect(only("book", { book: { name: "a" }, note: "n" })).toMatchObject({ name: "a", mainTitle: "" });
  expect(only("book", { note: "n" })).toBeNull();
  expect(only("books", { books: [{ name: "a" }] })).toMatchObject([{ name: "a" }]);
  expect(only("books", {})).toEqual([]);
  expect(only("note", {})).toBe("");
});

test("a response of another type than the method's is an error of the server that says so", () => {
  const binding = plain.transcoder.bindings[0]!;
  expect(() => plain.transcoder.encodeResponse(binding, create(testType("Book")))).toThrow();
});

test("a binding of another transcoder is refused", () => {
  const match = rich.transcoder.match("POST", "/v1/messages");
  if (match.kind !== "found") throw new Error("no route");
  const parts = { contentType: undefined, contentEncoding: undefined, body: new Uint8Array() };
  expect(() => plain.transcoder.decodeRequest(match.route, parts)).toThrow("another transcoder");
});
