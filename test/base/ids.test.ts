import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createRequestIds, createRunIds, encodeBase62, encodeCrockford } from "#src/base/ids.ts";

const version4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

test("every id is a UUID of version 4, and none comes twice, past the end of what is drawn at once too", () => {
  const newRequestId = createRequestIds(randomBytes);
  const ids = Array.from({ length: 1_000 }, newRequestId);
  for (const id of ids) expect(id).toMatch(version4);
  expect(new Set(ids).size).toBe(ids.length);
});

test("each of the 122 bits that an id has to itself comes from the source", () => {
  for (const [byte, expected] of [
    [0x00, "00000000-0000-4000-8000-000000000000"],
    [0xff, "ffffffff-ffff-4fff-bfff-ffffffffffff"],
  ] as const) {
    expect(createRequestIds((bytes) => new Uint8Array(bytes).fill(byte))()).toBe(expected);
  }
});

test("every id of a run has its prefix and 24 characters, and none comes twice", () => {
  const ids = Array.from({ length: 1_000 }, createRunIds(randomBytes));
  for (const id of ids) expect(id).toMatch(/^run_[0-9a-hjkmnp-tv-z]{24}$/);
  expect(new Set(ids).size).toBe(ids.length);
});

const crockford = "0123456789abcdefghjkmnpqrstvwxyz";
const groups = fc.integer({ min: 1, max: 6 }).chain((count) => {
  return fc.uint8Array({ minLength: 5 * count, maxLength: 5 * count });
});

/** The bytes as one number, digit by digit. */
function plainly(bytes: Uint8Array, digits: string, length: number): string {
  let number = bytes.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
  let text = "";
  for (; text.length < length; number /= BigInt(digits.length)) {
    text = digits.charAt(Number(number % BigInt(digits.length))) + text;
  }
  return text;
}

test("Crockford's base32 is the bytes as one number in its digits, leading zeros kept", () => {
  fc.assert(
    fc.property(groups, (bytes) => {
      expect(encodeCrockford(bytes)).toBe(plainly(bytes, crockford, (bytes.length / 5) * 8));
    }),
  );
});

test("ids that are encoded together are those that are encoded apart", () => {
  fc.assert(
    fc.property(groups, groups, (one, other) => {
      expect(encodeCrockford(Buffer.concat([one, other]))).toBe(
        encodeCrockford(one) + encodeCrockford(other),
      );
    }),
  );
});

test("base62 is the bytes as one number in its digits, padded to its length", () => {
  const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (bytes) => {
      expect(encodeBase62(bytes, 43)).toBe(plainly(bytes, base62, 43));
    }),
  );
});
