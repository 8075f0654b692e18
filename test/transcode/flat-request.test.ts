import { fromJson, type JsonObject } from "@bufbuild/protobuf";
import fc from "fast-check";
import { expect, test } from "vitest";
import { RunAppRequestSchema, RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { bindingsOf } from "#src/transcode/binding.ts";
import { createDecoder } from "#src/transcode/decode.ts";
import { flatRequestReaderOf } from "#src/transcode/flat-request.ts";
import { createChecks } from "#src/transcode/message-check.ts";
import { createRouteTable } from "#src/transcode/route-table.ts";
import { ruleOf, serviceOf } from "../harness/transcoding.ts";

const bindings = bindingsOf(RunService);
const [binding] = bindings;
const match = createRouteTable(bindings);
const read = flatRequestReaderOf(binding!)!;
const decoder = createDecoder(binding!, createChecks(undefined), undefined);

function routeOf(target: string) {
  const found = match("POST", target);
  if (found.kind !== "found") throw new Error(target);
  return found.route;
}

const bytesOf = (text: string) => new TextEncoder().encode(text);
const value = fc.oneof(
  fc.string({ unit: "grapheme" }),
  fc.constantFrom<unknown>(null, 1, true, {}, [], "\ud800"),
);
const body = fc.oneof(
  fc
    .dictionary(fc.constantFrom("text", "app_id", "appId", "other", "__proto__", ""), value)
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
  "/api/apps/echo/run",
  "/api/apps/a%2Fb/run",
  "/api/apps/%C3%BC/run",
  "/api/apps/x/run?text=a",
  "/api/apps/x/run?",
);

test("a request is read in one pass only if it has no fault, and then exactly as Protobuf-ES reads it", () => {
  let readInOnePass = 0;
  fc.assert(
    fc.property(path, body, (target, text) => {
      const route = routeOf(target);
      const message = read(route, bytesOf(text));
      const decoded = decoder.decode(route, {
        contentType: undefined,
        contentEncoding: undefined,
        body: bytesOf(text),
      });
      if (message === undefined) return;
      readInOnePass += 1;
      expect(decoded).toEqual({ kind: "message", message });
      const json: JsonObject = { ...JSON.parse(text), app_id: route.captures.get("app_id") ?? "" };
      expect(message).toEqual(fromJson(RunAppRequestSchema, json));
    }),
    { numRuns: 2_000 },
  );
  expect(readInOnePass).toBeGreaterThan(100);
});

test.each([
  ["no JSON", "/api/apps/echo/run", "{"],
  ["a name that is there twice", "/api/apps/echo/run", '{"text":"a","text":"b"}'],
  ["no object", "/api/apps/echo/run", '["text"]'],
  ["no text in UTF-16", "/api/apps/echo/run", '{"text":"\\ud800"}'],
  ["null", "/api/apps/echo/run", '{"text":null}'],
  ["another type", "/api/apps/echo/run", '{"text":1}'],
  ["an unknown field", "/api/apps/echo/run", '{"text":"a","other":"b"}'],
  ["what the path says", "/api/apps/echo/run", '{"text":"a","app_id":"echo"}'],
  ["what the path says, by its other name", "/api/apps/echo/run", '{"text":"a","appId":"echo"}'],
  ["a query", "/api/apps/echo/run?text=a", '{"text":"a"}'],
])("%s is left to the decoder", (_, target, text) => {
  expect(read(routeOf(target), bytesOf(text))).toBeUndefined();
});

test("a field may have either of its names; under both it is left to the decoder", () => {
  const readAll = flatRequestReaderOf({ ...binding!, variables: [] })!;
  const readBody = (text: string) => readAll(routeOf("/api/apps/echo/run"), bytesOf(text));
  expect(readBody('{"appId":"a"}')).toMatchObject({ appId: "a" });
  expect(readBody('{"app_id":"a"}')).toMatchObject({ appId: "a" });
  expect(readBody('{"app_id":"a","appId":"a"}')).toBeUndefined();
});

test.each([
  ["fields of other types", "POST /v1/all *"],
  ["no body", "GET /v1/all"],
  ["one field as the body", "POST /v1/all note"],
])("a binding with %s has no one-pass reader", (_, rule) => {
  const [other] = bindingsOf(serviceOf({ rule: ruleOf(rule), input: "BookReply" }));
  expect(other && flatRequestReaderOf(other)).toBeUndefined();
});
