/**
 * Returns a function that cuts secrets from a text. Only the prefix and the id of a key stay. Also
 * finds keys in percent-encoded form, even if that is encoded again, and white space in JSON form.
 * What is as long as a key's secret is cut without its prefix too.
 */
export function createRedaction(keyPrefix: string, secrets: readonly string[]): (text: string) => string {
  // Of two keys in a row, the first match takes the second's prefix, so it takes the rest too.
  const key = new RegExp(
    `(${keyPrefix}(?:_|%(?:25)*5F)[0-9A-Z]+)(?:\\.|%(?:25)*2E)${letter}+(?:[._]${letter}+)*`,
    "gi",
  );
  // Keyrun's own messages say `Bearer <API key>`, which is no token.
  const bearer = /\bbearer(?:\s|\\[tnr]|\+|%20)+(?!<API key>)[^\s"'\\,]+/gi;
  const userInformation = /(:\/\/)[^\s/"'\\@]+@/g;
  return (text) => {
    let cut = text;
    for (const form of secrets.flatMap(writtenForms)) cut = cut.replaceAll(form, "[redacted]");
    return cut
      .replace(bearer, "Bearer [redacted]")
      .replace(key, "$1.…")
      .replace(longWords, (word) => (hash.test(word) ? word : "…"))
      .replace(userInformation, "$1[redacted]@");
  };
}

/** True if the text may hold the secret of a key, with or without the rest of the key. */
export function mayHoldSecret(text: string): boolean {
  return (text.match(longWords) ?? []).some((word) => !hash.test(word));
}

/** A letter or a digit, or any percent escape, which may be encoded again. */
const letter = "(?:[0-9A-Z]|%(?:25)*[0-9A-F]{2})";

/** The secret of a key has 49 letters and digits. Names and ids are shorter. */
const longWords = new RegExp(`${letter}{40,}`, "gi");

/** Traces and digests are long too, but their digits are hexadecimal. */
const hash = /^[0-9A-F]{1,64}$/i;

/** The secret as it is, as JSON writes it and as a URL writes it. */
function writtenForms(secret: string): string[] {
  return secret === "" ? [] : [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)];
}
