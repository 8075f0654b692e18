import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import type { KeyEvidence } from "#src/auth/key-evidence.ts";
import { createServiceSecrets } from "#src/keys/service-secrets.ts";
import { createVerifiedValues, evidenceOf } from "#src/keys/verify-key.ts";
import { evidenceOf as evidenceOfToken } from "#src/service-tokens/service-tokens.ts";
import { collectGarbage } from "../harness/collect-garbage.ts";
import { keyRecordOf, serviceTokenRecordOf } from "../harness/store-records.ts";

const secrets = createServiceSecrets([randomBytes(32)]);

function evidence(): KeyEvidence {
  return {
    id: "id",
    firstKeyId: "id",
    teamId: "demo",
    digest: Buffer.alloc(32),
    secretVersion: secrets.newestVersion,
    revokeTimeMs: null,
    restrictions: null,
    ...{ expireTimeMs: null, isExpired: false, isPending: false, end: undefined },
    version: 1,
  };
}

test("a value is proven for the evidence that it matched, and for no other evidence of the same key", () => {
  const proven = createVerifiedValues(secrets);
  const [held, later] = [evidence(), evidence()];
  expect(proven.has(held, "value")).toBe(false);
  proven.add(held, "value");
  expect(proven.has(held, "value")).toBe(true);
  expect(proven.has(later, "value")).toBe(false);
  expect(proven.has(undefined, "value")).toBe(false);
  expect(proven.has(null, "value")).toBe(false);
});

test("no other value is proven by it, even one that differs in one character or in length", () => {
  const proven = createVerifiedValues(secrets);
  const held = evidence();
  proven.add(held, "value");
  for (const other of ["valuf", "Value", "valu", "valuee", "", "\0".repeat(64)]) {
    expect(proven.has(held, other)).toBe(false);
  }
});

test("what is kept of a key keeps no memory that Node shares out to other work", async () => {
  const proven = createVerifiedValues(secrets);
  const kept: object[] = [];
  const before = arrayBufferBytes();
  for (let at = 0; at < 300; at += 1) {
    const digest = randomBytes(32).toString("base64url");
    const key = evidenceOf(keyRecordOf({ id: `key-${at}`, teamId: "demo", digest }));
    const token = evidenceOfToken(serviceTokenRecordOf({ id: `token-${at}`, digest }));
    proven.add(key, digest);
    kept.push(key, token);
    // What runs of other callers take in between.
    for (let part = 0; part < 3; part += 1) Buffer.from("x".repeat(30_000));
  }
  // V8 frees the memory of buffers beside what runs.
  await expect.poll(() => arrayBufferBytes() - before, { timeout: 10_000 }).toBeLessThan(2_000_000);
  expect(kept.length).toBe(600);
});

function arrayBufferBytes(): number {
  collectGarbage();
  return process.memoryUsage().arrayBuffers;
}
