import * as fc from "fast-check";

/** A key as it may reach a place where it does not belong: cut, encoded, inside other text. */
export function mutatedKey(value: string): fc.Arbitrary<string> {
  const [, prefix = "", id = "", secret = ""] = /^([a-z0-9]+)_([0-9a-z]+)\.([0-9A-Za-z]+)$/.exec(value) ?? [];
  const dot = fc.constantFrom(".", "%2e", "%2E", "%252e", "%25252E", "/", "_", "", "%20", "\\u002e");
  const head = fc.constantFrom(
    `${prefix}_${id}`,
    `${prefix.toUpperCase()}_${id}`,
    `${prefix}%5F${id}`,
    id,
    "",
  );
  const tail = fc.constantFrom(secret, secret.slice(0, 43), secret.toLowerCase(), secret.toUpperCase());
  const whole = fc.tuple(head, dot, tail).map((parts) => parts.join(""));
  const around = fc.constantFrom("", "x", "a-b.", "/v1/", "key=", "%00", "é");
  return fc
    .tuple(
      around,
      fc.tuple(whole, encoding).map(([text, encode]) => encode(text)),
      around,
    )
    .map((parts) => parts.join(""));
}

const percent = (text: string) =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join("");
const encoding = fc.constantFrom<(text: string) => string>(
  (text) => text,
  (text) => text,
  percent,
  (text) => percent(text).replaceAll("%", "%25"),
  (text) => percent(text).toUpperCase(),
  (text) => text.replace(/[aeiou]/g, percent),
  (text) => text.replace(/[aeiou2-9]/g, (one) => percent(one).replaceAll("%", "%25")),
);

/** So many letters of a secret in a row are too many. */
const tellingLetters = 12;

/** True if a part of the key's secret can be read in the text, encoded or in another case. */
export function tellsSecret(text: string, value: string): boolean {
  const secret = value.slice(value.indexOf(".") + 1).toLowerCase();
  const plain = decoded(text).toLowerCase();
  for (let at = 0; at + tellingLetters <= secret.length; at += 1) {
    if (plain.includes(secret.slice(at, at + tellingLetters))) return true;
  }
  return false;
}

/** Without any percent escapes. */
export function decoded(text: string): string {
  const once = text.replace(/%([0-9a-f]{2})/gi, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return once === text ? text : decoded(once);
}
