import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createRedaction, mayHoldSecret } from "#src/log/redaction.ts";

const token = `token+for/tests~only=${"0".repeat(32)}`;
const redact = createRedaction("svc", [token]);

describe("a text that was made to be slow to redact is read in a time that grows with its length only:", () => {
  const manyCharacters = 200_000;
  const secondsMax = 1;
  const long = (part: string) => part.repeat(Math.ceil(manyCharacters / part.length));
  const escapes = ["%25", "%2525", "%252525", "%25252525", "%41", "%2541"];
  /** As many letters as a word may have that is no secret, and one character that ends it. */
  const words = ["a", ...escapes].flatMap((letter) =>
    [5, 7, 12, 13, 19, 20, 38, 39].map((count) => `${letter.repeat(count)}!`),
  );
  const pieces: readonly string[] = [
    ...words.map(long),
    ...["a", ...escapes, "25", "%", "%2", "svc", "svc_", "svc%25", "svc%5F", "svc_a"].map(long),
    ...["svc_a.", "svc_a%25", "svc_a%252E", "svc_a.b_", "svc_a.b.", "svc_a._"].map(long),
    ...["bearer", "bearer ", "bearer+", "bearer%20", "bearer\\t", "bearer <API key>", 'bearer+"'].map(long),
    ...["://", "://a", "://a@", ":", "/", "@", "a@", token.slice(0, -1), "0", "%3D"].map(long),
    ...[" ", "+", "%20", "\\t", " <API key>"].flatMap((gap) => [`bearer${long(gap)}"`, `bearer${long(gap)}`]),
    ...[`svc_${long("a")}`, `svc_${long("a")}%25`, `svc%${long("25")}`, `svc_a%${long("25")}`],
    ...[`svc_a.${long("b_")}`, `svc_a.${long("%25")}`, `://${long("a")}`, `://${long("%25")}"`],
  ];

  test.each(pieces.map((text) => [`${text.slice(0, 24)}… ${text.at(-1)}`, text]))("%s", (_, text) => {
    // Of this process alone: what else the machine does takes none of it.
    const before = process.cpuUsage();
    redact(text);
    mayHoldSecret(text);
    const { user, system } = process.cpuUsage(before);
    expect((user + system) / 1e6).toBeLessThan(secondsMax);
  });
});

test("a word is as long as the most letters that its percent escapes can be read as", () => {
  const letter = fc.constantFrom("a", "Z", "5", "25", "%25", "%2525", "%252541", "%41", "%aF");
  fc.assert(
    fc.property(
      fc.array(letter, { maxLength: 60 }),
      fc.constantFrom("!", "/", "%", "%2", ""),
      (parts, end) => {
        // Each escape that is encoded again is one letter, or an escape and digits.
        const most = parts.join("").replace(/%../g, "e").length;
        const isHash = /^[0-9A-F]{1,64}$/i.test(parts.join(""));
        const isWord = /^[A-Za-z][a-z]*$|^[A-Z]+$/.test(parts.join(""));
        const may = mayHoldSecret(`!${parts.join("")}${end}`);
        if (most >= 40 && !isHash && !isWord) expect(may).toBe(true);
        expect(redact(`!${parts.join("")}${end}`).includes("…")).toBe(may);
      },
    ),
    { numRuns: 2_000 },
  );
});

test("a long word of a language stays, and a secret without a digit goes", () => {
  const word = "Donaudampfschifffahrtselektrizitaetenhauptbetriebswerk";
  for (const each of [word, word.toLowerCase(), word.toUpperCase()]) {
    expect(redact(`Das ${each} fehlt`)).toBe(`Das ${each} fehlt`);
    expect(mayHoldSecret(each)).toBe(false);
  }
  const secret = "QqZzx".repeat(10);
  expect(redact(`no ${secret}`)).toBe("no …");
  expect(mayHoldSecret(secret)).toBe(true);
});

test("of a text that is too long, only its start is returned, and no half of a secret", () => {
  const secret = "QqZz7".repeat(10).slice(0, 49);
  const encoded = secret.replace(/Q/g, "%2551");
  const held = [
    ...[secret, encoded, `svc_0a1b2c3d.${secret}`, `svc%255F0a1b2c3d%252E${encoded}`, token],
    ...[`http://me:${secret}@host/`, `http:%2F/Bearer+${secret}`, `Bearer%20${encoded}`],
  ];
  for (const word of held) {
    for (let room = 0; room <= word.length + 8; room += 1) {
      const text = `/api/${"a".repeat(60)}/x/${word}/rest`;
      const start = redact(text, 67 + room);
      for (const half of [secret, encoded, token]) expect(start).not.toContain(half.slice(0, 8));
      expect(start).toMatch(/^\/api\//);
    }
  }
  expect(redact("/api/apps/echo/run", 18)).toBe("/api/apps/echo/run");
  expect(redact("/api/apps/echo/run", 17)).toBe("/api/apps/echo/…");
  expect(redact("/api/apps/echo/run", 15)).toBe("/api/apps/echo/…");
  expect(redact("/api/apps/echo/run", 14)).toBe("/api/apps/…");
  expect(redact("run".repeat(10), 29)).toBe("…");
});

test("a service token keeps its prefix and id alone, in every form that a key is found in", () => {
  const id = "7k3f0m9x2a4c6e8g1j5n7p9q";
  const secret = "QqZz7".repeat(10).slice(0, 49);
  expect(redact(`a keyrunservice_${id}.${secret} b`)).toBe(`a keyrunservice_${id}.… b`);
  expect(redact(`/keyrunservice%5F${id}%2E${secret.slice(0, 8)}?`)).toBe(`/keyrunservice%5F${id}.…?`);
  expect(redact(`keyrunservice_${id}.${secret}keyrunservice_${id}.${secret}`)).toBe(`keyrunservice_${id}.…`);
});
