import {
  type DescMessage,
  equals,
  fromJsonString,
  type JsonObject,
  type JsonValue,
  type Message,
  toJson,
  toJsonString,
} from "@bufbuild/protobuf";
import fc from "fast-check";
import { expect, test } from "vitest";
import { messageOf } from "./message-arbitrary.ts";
import { edgeOf, ruleOf, testType, testTypes } from "./transcoding.ts";

const registry = testTypes;
const [plain, rich] = [testType("Plain"), testType("Rich")];

function same(type: DescMessage, one: Message | undefined, other: Message): void {
  // The JSON shows the difference between two messages; `equals` also sees what JSON can't hold.
  expect(one && toJson(type, one, { registry })).toEqual(toJson(type, other, { registry }));
  expect(one !== undefined && equals(type, one, other)).toBe(true);
}

test("a message sent as a body arrives unchanged, in JSON names or proto names", () => {
  const edge = edgeOf({ input: "Rich", rule: ruleOf("POST /v1/messages *") });
  fc.assert(
    fc.property(messageOf(rich), fc.boolean(), (message, useProtoFieldName) => {
      const body = toJsonString(rich, message, { registry, useProtoFieldName });
      same(rich, edge.send("POST /v1/messages", body).message, message);
    }),
  );
});

test("a message sent by path and body arrives unchanged", () => {
  const edge = edgeOf({ input: "Rich", rule: ruleOf("POST /v1/{id}/messages *") });
  fc.assert(
    fc.property(messageOf(rich), fc.string({ unit: "grapheme", minLength: 1 }), (message, id) => {
      Object.assign(message, { id });
      const { id: _, ...body } = toJson(rich, message, { registry }) as JsonObject;
      same(rich, edge.send(`POST /v1/${encodeURIComponent(id)}/messages`, body).message, message);
    }),
  );
});

test("a message sent by path, query and body field arrives unchanged", () => {
  const edge = edgeOf({
    input: "Plain",
    rule: ruleOf("POST /v1/{sub_plain.int64}/messages/{string=x/**} strings"),
  });
  fc.assert(
    fc.property(messageOf(plain), fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }), (message, int64) => {
      const string = "x/a/b";
      const sub = (message as Message & { subPlain?: Message }).subPlain;
      Object.assign(message, {
        string,
        subPlain: { ...sub, $typeName: plain.typeName, ...defaultsOf(sub), int64 },
      });
      const json = toJson(plain, message, { alwaysEmitImplicit: true }) as JsonObject;
      const { strings, string: _, ...rest } = json;
      const { int64: __, ...subRest } = rest.subPlain as JsonObject;
      const query = flatten({ ...rest, subPlain: subRest });
      same(plain, edge.send(`POST /v1/${int64}/messages/${string}?${query}`, strings).message, message);
    }),
  );
});

test("any ProtoJSON reader reads from a response the message that was sent", () => {
  const { transcoder } = edgeOf({ output: "Rich", rule: ruleOf("GET /v1/messages") });
  fc.assert(
    fc.property(messageOf(rich), (message) => {
      const { body } = transcoder.encodeResponse(transcoder.bindings[0]!, message);
      same(rich, fromJsonString(rich, String(body), { registry }), message);
    }),
  );
});

test("a body with one value replaced by another is read, or refused with the name of a field", () => {
  const edge = edgeOf({ input: "Rich", rule: ruleOf("POST /v1/messages *") });
  const seen = { message: 0, refused: 0 };
  const stray = fc.oneof(
    fc.jsonValue({ maxDepth: 2 }),
    fc.constantFrom("1", "-0", "1e2", "NaN", "AA==", "0001", "true"),
  );
  fc.assert(
    fc.property(messageOf(rich, 1), stray, fc.nat(), (message, value, at) => {
      const json = toJson(rich, message, { registry, alwaysEmitImplicit: true });
      const holders = objectsIn(json).flatMap((object) =>
        Object.keys(object).map((key) => ({ object, key })),
      );
      const { object, key } = holders[at % holders.length]!;
      object[key] = value as JsonValue;
      const sent = edge.send("POST /v1/messages", json);
      if (sent.kind !== "message")
        expect(sent).toMatchObject({ kind: "invalid_argument", param: expect.any(String) });
      seen[sent.kind === "message" ? "message" : "refused"]++;
    }),
    { numRuns: 1_000 },
  );
  expect(Math.min(seen.message, seen.refused)).toBeGreaterThan(50);
});

/** Returns every object in a JSON value, arrays included. */
function objectsIn(json: JsonValue): JsonObject[] {
  if (typeof json !== "object" || json === null) return [];
  const within = Object.values(json).flatMap(objectsIn);
  return [json as JsonObject, ...within];
}

/** An absent nested message counts as one with no field set. */
function defaultsOf(sub: Message | undefined): object {
  return sub === undefined ? fromJsonString(plain, "{}") : {};
}

/** Turns a message's JSON into a query as a client would: dotted names, lists repeated. */
function flatten(json: JsonObject, prefix = ""): string {
  const pairs = Object.entries(json).flatMap(([name, value]): string[] => {
    if (Array.isArray(value)) return value.map((item) => pair(prefix + name, item));
    if (typeof value === "object" && value !== null) return [flatten(value, `${prefix}${name}.`)];
    return [pair(prefix + name, value)];
  });
  return pairs.filter((each) => each !== "").join("&");
}

function pair(name: string, value: JsonValue): string {
  return `${name}=${encodeURIComponent(String(value))}`;
}
