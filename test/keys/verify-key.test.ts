import { randomBytes } from "node:crypto";
import { crc32 } from "node:zlib";
import { expect, onTestFinished, test, vi } from "vitest";
import { type KeyEvidence, unguarded } from "#src/auth/key-evidence.ts";
import { createKeyForm } from "#src/keys/key-value.ts";
import { createServiceSecrets } from "#src/keys/service-secrets.ts";
import { createKeyVerifier } from "#src/keys/verify-key.ts";
import { createManualClock } from "../harness/manual-clock.ts";

const secrets = createServiceSecrets([Buffer.alloc(32, 1)]);
const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const form = createKeyForm("svc", secrets);

/** A key and its verifier, over maps of what is cached and what the store holds. */
function setUp(facts: Partial<KeyEvidence> = {}) {
  const { id, value } = form.mint(randomBytes);
  const digest = secrets.digest(secrets.newestVersion, value) ?? Buffer.alloc(0);
  const evidence: KeyEvidence = {
    id,
    firstKeyId: id,
    teamId: "demo",
    digest,
    secretVersion: secrets.newestVersion,
    revokeTimeMs: null,
    restrictions: null,
    ...{ expireTimeMs: null, isExpired: false, isPending: false, end: undefined },
    version: 1,
    ...facts,
  };
  const cached = new Map<string, KeyEvidence | null>();
  const stored = new Map([[id, evidence]]);
  let reads = 0;
  const clock = createManualClock();
  const verifier = createKeyVerifier({
    clock,
    form,
    secrets,
    evidence: {
      peek: (keyId) => cached.get(keyId),
      load: async (keyId) => {
        reads++;
        return stored.get(keyId);
      },
    },
  });
  const caller = { address: "192.0.2.1" };
  return {
    clock,
    id,
    value,
    evidence,
    cached,
    stored,
    peek: verifier.peek,
    verify: async (text: string) => verifier.peek(text) ?? (await verifier.load(text, caller, unguarded)),
    reads: () => reads,
  };
}

/**
 * A well-formed value with the same id and another secret. A person who read the id in a list could
 * make it.
 */
function sameIdOtherSecret(id: string): string {
  const unchecked = `svc_${id}.${"a".repeat(43)}`;
  let sum = BigInt(crc32(unchecked));
  let checksum = "";
  for (let i = 0; i < 6; i++, sum /= 62n) checksum = base62.charAt(Number(sum % 62n)) + checksum;
  expect(form.isWellFormed(unchecked + checksum)).toBe(true);
  return unchecked + checksum;
}

function validOf(keyId: string) {
  return { kind: "valid", keyId, firstKeyId: keyId, teamId: "demo", restrictions: null };
}

test("a cached key is verified at once, without a promise and without a read", () => {
  const { id, value, evidence, cached, peek, reads } = setUp();
  cached.set(id, evidence);
  expect(peek(value)).toEqual(validOf(id));
  expect(reads()).toBe(0);
});

test("a key that is not cached is read from the store once", async () => {
  const { id, value, verify, reads } = setUp();
  expect(await verify(value)).toEqual(validOf(id));
  expect(reads()).toBe(1);
});

test("a revoked key is reported as revoked only to a caller that has its secret", async () => {
  const { id, value, verify } = setUp({ revokeTimeMs: 5 });
  expect(await verify(value)).toEqual({ kind: "revoked", keyId: id, teamId: "demo", revokeTimeMs: 5 });
  expect(await verify(sameIdOtherSecret(id))).toEqual({ kind: "invalid" });
});

test("a wrong secret for a cached id is invalid without a read, whatever its checksum", () => {
  const { id, value, evidence, cached, peek, reads } = setUp();
  cached.set(id, evidence);
  const last = value.at(-1) === "0" ? "1" : "0";
  expect(peek(value.slice(0, -1) + last)).toEqual({ kind: "invalid" });
  expect(reads()).toBe(0);
});

test("a value that is refused by its form costs no read", () => {
  const { value, peek, reads } = setUp();
  for (const text of [
    "",
    "svc_",
    value.slice(1),
    `${value} `,
    value.replace(".", "_"),
    value.toUpperCase(),
  ]) {
    expect(peek(text)).toEqual({ kind: "invalid" });
  }
  expect(reads()).toBe(0);
});

test("an id known to be absent costs no read", () => {
  const { id, value, cached, peek, reads } = setUp();
  cached.set(id, null);
  expect(peek(value)).toEqual({ kind: "invalid" });
  expect(reads()).toBe(0);
});

test("a digest made under an unknown secret matches nothing", async () => {
  const { value, verify } = setUp({ secretVersion: "00000000", digest: Buffer.alloc(32) });
  expect(await verify(value)).toEqual({ kind: "invalid" });
});

test("a stored key whose digest is another key's does not verify", async () => {
  const { value, verify } = setUp({ digest: Buffer.alloc(32, 3) });
  expect(await verify(value)).toEqual({ kind: "invalid" });
});

test("a key that was proven before is reported as revoked as soon as its evidence is replaced", () => {
  const { id, value, evidence, cached, peek } = setUp();
  cached.set(id, evidence);
  expect(peek(value)).toMatchObject({ kind: "valid" });
  expect(peek(value)).toMatchObject({ kind: "valid" });
  cached.set(id, { ...evidence, revokeTimeMs: 5, version: 2 });
  expect(peek(value)).toMatchObject({ kind: "revoked", revokeTimeMs: 5 });
  expect(peek(value)).toMatchObject({ kind: "revoked", revokeTimeMs: 5 });
});

test("a key that was proven before makes no wrong secret valid, nor another digest of its id", () => {
  const { id, value, evidence, cached, peek } = setUp();
  cached.set(id, evidence);
  expect(peek(value)).toMatchObject({ kind: "valid" });
  expect(peek(sameIdOtherSecret(id))).toEqual({ kind: "invalid" });
  expect(peek(sameIdOtherSecret(id))).toEqual({ kind: "invalid" });
  expect(peek(value)).toMatchObject({ kind: "valid" });
  cached.set(id, { ...evidence, digest: Buffer.alloc(32, 3) });
  expect(peek(value)).toEqual({ kind: "invalid" });
});

test("a key is expired from its time on, also one that was proven before, and only to who has its secret", () => {
  const { clock, id, value, evidence, cached, peek } = setUp();
  const expireTimeMs = clock.unixMs() + 1_000;
  cached.set(id, { ...evidence, expireTimeMs });
  clock.advance(999);
  expect(peek(value)).toMatchObject({ kind: "valid" });
  clock.advance(1);
  for (let times = 0; times < 2; times++) {
    expect(peek(value)).toEqual({ kind: "expired", keyId: id, teamId: "demo", expireTimeMs });
    expect(peek(sameIdOtherSecret(id))).toEqual({ kind: "invalid" });
  }
});

test("a key that is marked as expired stays so when the clock is set back", async () => {
  const { value, verify } = setUp({ expireTimeMs: 1_800_000_000_000, isExpired: true });
  expect(await verify(value)).toMatchObject({ kind: "expired" });
});

test("a key is no key while it is pending, and revoked before it is expired", async () => {
  const pending = setUp({ isPending: true });
  expect(await pending.verify(pending.value)).toEqual({ kind: "invalid" });
  const ended = setUp({ revokeTimeMs: 5, expireTimeMs: 5 });
  expect(await ended.verify(ended.value)).toMatchObject({ kind: "revoked" });
});

test("an unknown id is read, hashed and compared as a wrong secret is, so that the time reveals no id", async () => {
  const { id, stored, verify, reads } = setUp();
  const digest = vi.spyOn(secrets, "digest");
  onTestFinished(() => digest.mockRestore());
  const value = sameIdOtherSecret(id);
  for (const isKnown of [true, false]) {
    if (!isKnown) stored.clear();
    digest.mockClear();
    const readsBefore = reads();
    expect(await verify(value)).toEqual({ kind: "invalid" });
    const hashed = digest.mock.calls.filter(([, text]) => text === value);
    expect([reads() - readsBefore, hashed]).toEqual([1, [[secrets.newestVersion, value]]]);
  }
});
