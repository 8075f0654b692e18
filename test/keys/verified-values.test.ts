import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import type { KeyEvidence } from "#src/auth/key-evidence.ts";
import { createServiceSecrets } from "#src/keys/service-secrets.ts";
import { createVerifiedValues } from "#src/keys/verify-key.ts";

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
