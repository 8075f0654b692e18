import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { claimOf } from "#src/run/kept/idempotency-key.ts";
import type { RunInput } from "#src/run/runner.ts";

const fingerprintOf = (input: RunInput) =>
  claimOf("order-4711", { teamId: "acme", appId: "echo", ...input }).fingerprint;
const ofJson = (input: string) => fingerprintOf({ input: JSON.parse(input) });

test("a text alone has the digest of app and text", () => {
  const digest = createHash("sha256").update("echo\nhello").digest("base64url");
  expect(fingerprintOf({ text: "hello" })).toBe(digest);
});

test.each([
  ["members in another order, at every depth", '{"a":[{"b":1,"c":{"d":2,"e":3}}],"f":4}'],
  ["other white space", ' {"f" : 4,\n"a":[ {"c":{"e":3,"d":2},"b":1} ]}\t'],
  ["numbers in another form", '{"f":4.0,"a":[{"c":{"e":30e-1,"d":0.2e1},"b":1e0}]}'],
])("%s is the same input", (_, json) => {
  expect(ofJson(json)).toBe(ofJson('{"f":4,"a":[{"c":{"e":3,"d":2},"b":1}]}'));
});

test("-0 is the same input as 0", () => {
  expect(ofJson('{"a":-0}')).toBe(ofJson('{"a":0}'));
});

test("each other value, name, list or text is another input", () => {
  const jsons = [
    ...['{"a":1}', '{"a":"1"}', '{"a":[1]}', '{"a":null}', "{}", '{"a":{}}', '{"a":[]}', '{"":1}'],
    ...['{"a":[1,2]}', '{"a":[2,1]}', '{"a":[[1],2]}', '{"a":{"0":1,"1":2}}', '{"a":true}'],
    ...['{"__proto__":1}', '{"__proto__":{"a":1}}', '{"a":{"__proto__":{"b":1}}}', '{"constructor":1}'],
    ...['{"a":"b,c","a,b":"c"}', '{"a":"c","a,b":"b,c"}', '{"a.b":1}', '{"A":1}', '{"toJSON":1}'],
  ];
  const digests = jsons.flatMap((json) => [
    ...[ofJson(json), fingerprintOf({ text: "", input: JSON.parse(json) })],
    ...[fingerprintOf({ text: "hi", input: JSON.parse(json) }), fingerprintOf({ text: json })],
    fingerprintOf({ text: `input\n{"input":${json}}` }),
  ]);
  expect(new Set(digests).size).toBe(5 * jsons.length);
});

test("members whose names and values run together are the same in each order", () => {
  expect(ofJson('{"a":"b,c","a,b":"c"}')).toBe(ofJson('{"a,b":"c","a":"b,c"}'));
  expect(ofJson('{"__proto__":{"a":1,"b":2},"c":3}')).toBe(ofJson('{"c":3,"__proto__":{"b":2,"a":1}}'));
});
