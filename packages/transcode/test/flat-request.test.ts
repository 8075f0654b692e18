import { fromJson, type JsonObject } from "@bufbuild/protobuf";
import fc from "fast-check";
import { expect, onTestFinished, test, vi } from "vitest";
import { bindingsOf } from "../src/binding.ts";
import { createDecoder } from "../src/decode.ts";
import { flatRequestReaderOf } from "../src/flat-message.ts";
import { parseJson } from "../src/json-text.ts";
import { createChecks } from "../src/message-check.ts";
import { createRouteTable, type MatchedRoute } from "../src/route-table.ts";
import { ruleOf, serviceOf, testType } from "./transcoding.ts";

const bindings = bindingsOf(
  serviceOf({ rule: ruleOf("POST /v1/notes/{note_id}/send *"), input: "Note", output: "NoteReply" }),
);
const [binding] = bindings;
const match = createRouteTable(bindings);
const readFlat = flatRequestReaderOf(binding!)!;
const decoder = createDecoder(binding!, createChecks(undefined), undefined);

function routeOf(target: string) {
  const found = match("POST", target);
  if (found.kind !== "found") throw new Error(target);
  return found.route;
}

const bytesOf = (text: string) => new TextEncoder().encode(text);

function read(route: MatchedRoute, text: string, reader = readFlat) {
  const parsed = parseJson(bytesOf(text));
  return parsed.kind === "json" ? reader(route, parsed.json) : undefined;
}

const value = fc.oneof(
  fc.string({ unit: "grapheme" }),
  fc.constantFrom<unknown>(null, 1, true, {}, [], "\ud800"),
);
const body = fc.oneof(
  fc
    .dictionary(fc.constantFrom("text", "note_id", "noteId", "other", "__proto__", ""), value)
    .map((json) => JSON.stringify(json)),
  fc.constantFrom(
    "",
    "{",
    "[]",
    '"text"',
    "null",
    '{"text":"a"}',
    '{"text":"a","text":"b"}',
    '\ufeff{"text":"a"}',
    '{"text":"a"} b',
  ),
);
const path = fc.constantFrom(
  "/v1/notes/echo/send",
  "/v1/notes/a%2Fb/send",
  "/v1/notes/%C3%BC/send",
  "/v1/notes/x/send?text=a",
  "/v1/notes/x/send?",
);

test("a request is read in one pass only if it has no fault, and then exactly as Protobuf-ES reads it", () => {
  let readInOnePass = 0;
  fc.assert(
    fc.property(path, body, (target, text) => {
      const route = routeOf(target);
      const message = read(route, text);
      const decoded = decoder.decode(route, {
        contentType: undefined,
        contentEncoding: undefined,
        body: bytesOf(text),
      });
      if (message === undefined) return;
      readInOnePass += 1;
      expect(decoded).toEqual({ kind: "message", message });
      const json: JsonObject = { ...JSON.parse(text), note_id: route.captures.get("note_id") ?? "" };
      expect(message).toEqual(fromJson(testType("Note"), json));
    }),
    { numRuns: 2_000 },
  );
  expect(readInOnePass).toBeGreaterThan(100);
});

test.each([
  ["no JSON", "/v1/notes/echo/send", "{"],
  ["a name that is there twice", "/v1/notes/echo/send", '{"text":"a","text":"b"}'],
  ["no object", "/v1/notes/echo/send", '["text"]'],
  ["no text in UTF-16", "/v1/notes/echo/send", '{"text":"\\ud800"}'],
  ["null", "/v1/notes/echo/send", '{"text":null}'],
  ["another type", "/v1/notes/echo/send", '{"text":1}'],
  ["an unknown field", "/v1/notes/echo/send", '{"text":"a","other":"b"}'],
  ["what the path says", "/v1/notes/echo/send", '{"text":"a","note_id":"echo"}'],
  ["what the path says, by its other name", "/v1/notes/echo/send", '{"text":"a","noteId":"echo"}'],
  ["a query", "/v1/notes/echo/send?text=a", '{"text":"a"}'],
])("%s is left to the decoder", (_, target, text) => {
  expect(read(routeOf(target), text)).toBeUndefined();
});

test.each(['{"text":1}', '{"other":"a"}', '{"text":null}'])("%s is parsed once, with its faults", (text) => {
  const parse = vi.spyOn(JSON, "parse");
  onTestFinished(() => parse.mockRestore());
  const headers = { contentType: undefined, contentEncoding: undefined };
  decoder.decode(routeOf("/v1/notes/echo/send"), { ...headers, body: bytesOf(text) });
  expect(parse).toHaveBeenCalledTimes(1);
});

test("a message that is there is left to the decoder, and one that is absent is not", () => {
  const route = routeOf("/v1/notes/echo/send");
  expect(read(route, '{"text":"a"}')).toMatchObject({ noteId: "echo", text: "a" });
  for (const facts of ['{"a":1}', "null", "1"]) {
    expect(read(route, `{"text":"a","facts":${facts}}`)).toBeUndefined();
  }
  const headers = { contentType: undefined, contentEncoding: undefined };
  const body = bytesOf('{"text":"a","facts":{"b":[1]}}');
  expect(decoder.decode(route, { ...headers, body })).toMatchObject({ message: { facts: { b: [1] } } });
});

test("a field may have either of its names; under both it is left to the decoder", () => {
  const readAll = flatRequestReaderOf({ ...binding!, variables: [] })!;
  const readBody = (text: string) => read(routeOf("/v1/notes/echo/send"), text, readAll);
  expect(readBody('{"noteId":"a"}')).toMatchObject({ noteId: "a" });
  expect(readBody('{"note_id":"a"}')).toMatchObject({ noteId: "a" });
  expect(readBody('{"note_id":"a","noteId":"a"}')).toBeUndefined();
});

test.each([
  ["fields of other types", "POST /v1/all *"],
  ["no body", "GET /v1/all"],
  ["one field as the body", "POST /v1/all note"],
])("a binding with %s has no one-pass reader", (_, rule) => {
  const [other] = bindingsOf(serviceOf({ rule: ruleOf(rule), input: "BookReply" }));
  expect(other && flatRequestReaderOf(other)).toBeUndefined();
});
