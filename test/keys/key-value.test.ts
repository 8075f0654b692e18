import { crc32 } from "node:zlib";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createKeyForm, mayHavePrefix, redactKeyValue } from "#src/keys/key-value.ts";
import { createServiceSecrets } from "#src/keys/service-secrets.ts";

const secret = Buffer.alloc(32, 7);
const secrets = createServiceSecrets([secret]);
const form = createKeyForm("svc", secrets);
const anyRandom = fc.infiniteStream(fc.integer({ min: 0, max: 255 }));

function mintFrom(bytes: Iterable<number>, of = form) {
  const source = bytes[Symbol.iterator]();
  return of.mint((count) => Uint8Array.from({ length: count }, () => Number(source.next().value)));
}

test("a minted value has the published pattern, its own id, and is well formed", () => {
  fc.assert(
    fc.property(anyRandom, (bytes) => {
      const { id, value } = mintFrom(bytes);
      expect(value).toMatch(/^svc_[0-9a-hjkmnp-tv-z]{24}\.[0-9A-Za-z]{49}$/);
      expect(form.idIn(value)).toBe(id);
      expect(form.isWellFormed(value)).toBe(true);
    }),
  );
});

test("anybody can check the checksum offline: CRC-32 of all before it, in base62", () => {
  const { value } = mintFrom(new Uint8Array(64).fill(0xab));
  let sum = 0n;
  for (const digit of value.slice(-6)) {
    sum = sum * 62n + BigInt("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".indexOf(digit));
  }
  expect(sum).toBe(BigInt(crc32(value.slice(0, -6))));
});

test("random bits that are all zeros or all ones keep their length", () => {
  expect(mintFrom(new Uint8Array(64)).value).toContain(`.${"0".repeat(43)}`);
  expect(mintFrom(new Uint8Array(64).fill(255)).value).toHaveLength(78);
});

test("a value with any one character changed, cut or added is refused by its form", () => {
  const { value } = mintFrom(Uint8Array.from({ length: 64 }, (_, i) => i * 3));
  fc.assert(
    fc.property(fc.nat(value.length - 1), fc.constantFrom(..."0aZ_.-é"), (at, other) => {
      fc.pre(value[at] !== other);
      expect(form.isWellFormed(value.slice(0, at) + other + value.slice(at + 1))).toBe(false);
      expect(form.isWellFormed(value.slice(0, at) + value.slice(at + 1))).toBe(false);
      expect(form.isWellFormed(value.slice(0, at) + other + value.slice(at))).toBe(false);
    }),
  );
});

test("an invented id is refused by its tag although its checksum is right", () => {
  const stranger = createKeyForm("svc", createServiceSecrets([Buffer.alloc(32, 8)]));
  const { value } = mintFrom(new Uint8Array(64).fill(5), stranger);
  expect(stranger.isWellFormed(value)).toBe(true);
  expect(form.isWellFormed(value)).toBe(false);
});

test("an id tagged under an older secret stays well-formed while that secret is kept", () => {
  const { value } = mintFrom(new Uint8Array(64).fill(9));
  const rotated = createServiceSecrets([Buffer.alloc(32, 8), secret]);
  expect(createKeyForm("svc", rotated).isWellFormed(value)).toBe(true);
});

test("the redacted value is the first 8 characters, an ellipsis and the last 4", () => {
  const { value } = mintFrom(new Uint8Array(64).fill(17));
  expect(redactKeyValue(value)).toBe(`${value.slice(0, 8)}…${value.slice(74)}`);
});

test("a redacted value shows that its prefix is another one, as far as a long prefix is visible", () => {
  const redactedOf = (prefix: string) =>
    redactKeyValue(mintFrom(new Uint8Array(64), createKeyForm(prefix, secrets)).value);
  for (const prefix of ["svc", "a", "sevenst", "eightlet", "twelveletter"]) {
    expect(mayHavePrefix(redactedOf(prefix), prefix)).toBe(true);
    for (const other of ["svd", "sv", "svcs", "sevenstx"]) {
      expect(mayHavePrefix(redactedOf(prefix), other)).toBe(false);
    }
  }
  expect(mayHavePrefix(redactedOf("twelveletter"), "twelvemonths")).toBe(false);
  expect(mayHavePrefix(redactedOf("twelveletter"), "twelvelex")).toBe(true);
});
