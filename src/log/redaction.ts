/**
 * What no reader of a text may get from it: secrets, and what misleads the reader of a terminal.
 */

/**
 * Cuts secrets from a text. Of a text with more characters than `charactersMax`, only the start is
 * returned, up to a slash.
 */
export type Redact = (text: string, charactersMax?: number) => string;

/**
 * The prefix of service tokens. It is one character longer than the prefix of a key may be, so
 * nobody takes one for the other, and a secret scanner can tell them apart.
 */
export const serviceTokenPrefix = "keyrunservice";

/**
 * Returns a function that cuts secrets from a text. Only the prefix and the id of a key or a
 * service token stay. Also finds them in percent-encoded form, even if that is encoded again, and
 * white space in JSON form. What is as long as a key's secret is cut without its prefix too.
 * Callers write some of the texts, so the alternatives of each pattern exclude each other: no text
 * is slow to read.
 */
export function createRedaction(keyPrefix: string, secrets: readonly string[]): Redact {
  // Of two keys in a row, the first match takes the second's prefix, so it takes the rest too.
  const key = new RegExp(
    `((?:${serviceTokenPrefix}|${keyPrefix})(?:_|%(?:25)*5F)[0-9A-Z]+)(?:\\.|%(?:25)*2E)${letter}+(?:[._]${letter}+)*`,
    "gi",
  );
  // Messages say `Bearer <API key>` and "a bearer token", which are none.
  const bearer =
    /\bbearer(?:\s|\\[tnr]|\+|%20)+(?!<[a-z ]{1,20}>|(?:tokens?|auth|authentication|authorization|credentials?|headers?|keys?|schemes?|is|was|must)(?![0-9a-z]))[^\s"'\\,]+/gi;
  const userInformation = /(:\/\/)[^\s/"'\\@]+@/g;
  return (text, charactersMax = Number.POSITIVE_INFINITY) => {
    let cut = text;
    for (const form of secrets.flatMap(writtenForms)) cut = cut.replaceAll(form, "[redacted]");
    return startOf(cut, charactersMax)
      .replace(bearer, "Bearer [redacted]")
      .replace(key, "$1.…")
      .replace(longWords, (word) => (isNoSecret(word) ? word : "…"))
      .replace(userInformation, "$1[redacted]@");
  };
}

/** True if the text may hold the secret of a key, with or without the rest of the key. */
export function mayHoldSecret(text: string): boolean {
  return (text.match(longWords) ?? []).some((word) => !isNoSecret(word));
}

function isNoSecret(longWord: string): boolean {
  return hash.test(longWord) || wordOfLanguage.test(longWord);
}

/**
 * A letter or a digit, or any percent escape. One that is encoded again is an escape and digits: a
 * pattern of its own could read it in many ways, and would try all of them.
 */
const letter = "(?:[0-9A-Z]|%[0-9A-F]{2})";

/** The secret of a key has 49 letters and digits. Names and ids are shorter. */
const longWords = new RegExp(`${letter}{40,}`, "gi");

/** Traces and digests are long too, but their digits are hexadecimal. */
const hash = /^[0-9A-F]{1,64}$/i;

/**
 * Some languages write long words, but in letters of one case behind the first. Of the secrets of
 * keys not one in 10^14 is so.
 */
const wordOfLanguage = /^(?:[A-Za-z][a-z]*|[A-Z]+)$/;

/** What is found by a pattern has no slash, but for bearer tokens, so a slash halves no secret. */
function startOf(text: string, charactersMax: number): string {
  if (text.length <= charactersMax) return text;
  return `${text.slice(0, text.lastIndexOf("/", charactersMax - 1) + 1)}…`;
}

/** The secret as it is, as JSON writes it and as a URL writes it. */
function writtenForms(secret: string): string[] {
  return secret === "" ? [] : [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)];
}

/**
 * Not secret, and yet not for a terminal as it is: the characters that mislead its reader, beside
 * the control characters of ASCII, for a class of a regular expression. They are DEL and the C1
 * controls, line separators, and the marks that turn the direction of text around.
 */
export const misleadingCharacters =
  "\\u007f-\\u009f\\u2028\\u2029\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069";
