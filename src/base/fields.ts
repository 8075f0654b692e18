/**
 * The fields that several resources have: labels and names, ids, e-mail addresses. Each reader
 * returns the value in its one form, or refuses with INVALID_ARGUMENT and the field's name.
 */

import { bounds } from "../bounds.ts";
import { fail } from "../refusal/refusal.ts";

/** A key's label; empty if there is none. */
export function readLabel(value: string, param: string): string {
  return withoutSecret(readPlainText(value, param, bounds.labelCodePointsMax), param);
}

/** The text of a search for keys; empty if there is none. It is never part of a refusal. */
export function readKeyQuery(value: string, param: string): string {
  return readPlainText(value, param, bounds.keyQueryCodePointsMax);
}

/** The display name of a team or an app; empty if there is none. */
export function readDisplayName(value: string, param: string): string {
  return withoutSecret(readPlainText(value, param, bounds.displayNameCodePointsMax), param);
}

/**
 * What is secret by its form, with anything around it: a whole API key or service token, whatever
 * its prefix is, and the code of a sign-in link.
 */
const secretForm = /_[0-9a-hjkmnp-tv-z]{24}(?:\.|%2e)[0-9a-z]{49}|#code=[\w-]{43}/i;

/**
 * The text, which is kept or shown. Refuses one that holds a secret, in words without it: people
 * paste a key where they mean its name. A part of a key is no secret, and a whole one is 76
 * characters or longer, so what is shorter needs no check.
 */
export function withoutSecret(text: string, param: string): string {
  if (!secretForm.test(text.normalize("NFKC"))) return text;
  throw fail("INVALID_ARGUMENT", {
    param,
    problem: `${param} must not hold an API key, a service token or a sign-in link: it is kept and shown. Send it without.`,
  });
}

// Control characters, line and paragraph separators, bidirectional formatting and lone surrogates
// can make a list look different from what it contains. The zero-width joiner is allowed: emoji and
// several scripts need it.
const misleading = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069\p{Cs}]/u;

/**
 * One line of text, trimmed. Refuses more than `codePointsMax` Unicode code points, and characters
 * that could mislead readers of a list.
 */
function readPlainText(value: string, param: string, codePointsMax: number): string {
  const text = value.trim();
  // The length bounds the cost of the split: a code point has at most two units.
  if (text.length > codePointsMax * 2 || [...text].length > codePointsMax) {
    throw fail("INVALID_ARGUMENT", {
      param,
      problem: `${param} must be at most ${codePointsMax} characters.`,
    });
  }
  if (misleading.test(text)) {
    throw fail("INVALID_ARGUMENT", {
      param,
      problem: `${param} must not hold control characters, line separators or direction overrides.`,
    });
  }
  return text;
}

const emailCharactersMax = 254; // RFC 5321, section 4.5.3.1.3, less the angle brackets.
const emailForm = /^[^\s@\p{Cc}]{1,64}@[^\s@\p{Cc}]+$/u;

/** The e-mail address, trimmed and in lower case. */
export function readEmail(value: string, param: string): string {
  const email = normalEmail(value.trim());
  if (email !== undefined) return withoutSecret(email, param);
  throw fail("INVALID_ARGUMENT", {
    param,
    problem: `${param} must be an e-mail address like ada@example.com, at most ${emailCharactersMax} characters.`,
  });
}

/** The address in lower case; undefined if the text is not an e-mail address. */
export function normalEmail(value: string): string | undefined {
  return value.length <= emailCharactersMax && emailForm.test(value) ? value.toLowerCase() : undefined;
}

/** The form of a team's or an app's id, which its creator chooses (AIP-122). */
export const resourceIdForm = /^[a-z][a-z0-9-]{0,62}$/;

/** Whether the text could be the id of a team or an app. */
export function isResourceId(value: string): boolean {
  return resourceIdForm.test(value);
}

/** The id, if it has the form. */
export function readResourceId(value: string, param: string): string {
  if (isResourceId(value)) return value;
  throw fail("INVALID_ARGUMENT", {
    param,
    problem: `${param} must be 1 to 63 characters: a lower-case letter, then lower-case letters, digits or hyphens.`,
  });
}

/**
 * The text as searches compare it: without a difference of case, of width, or of the ways in which
 * Unicode writes one letter.
 */
export function searchForm(text: string): string {
  return foldCase(text.normalize("NFKC"));
}

/**
 * The text with every letter in one case, for a comparison that ignores case. It goes letter by
 * letter, so a part of a text stays a part of it. A letter whose other case has several code points
 * stays as it is.
 */
export function foldCase(text: string): string {
  if (ascii.test(text)) return text.toLowerCase();
  return Array.from(text, foldLetter).join("");
}

const ascii = /^[\0-\x7f]*$/;

/** By way of the upper case, because several lower letters may share one, as "σ" and "ς" do. */
function foldLetter(letter: string): string {
  const upper = letter.toUpperCase();
  const base = isOneCodePoint(upper) ? upper : letter;
  const lower = base.toLowerCase();
  return isOneCodePoint(lower) ? lower : base;
}

function isOneCodePoint(text: string): boolean {
  const [first] = text;
  return first === text;
}

const uuidForm = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** The `request_id` of a call that must not be done twice; null if it has none. */
export function readRequestId(value: string): string | null {
  const requestId = value.toLowerCase();
  if (requestId === "") return null;
  if (uuidForm.test(requestId)) return requestId;
  throw fail("INVALID_ARGUMENT", { param: "request_id", problem: "request_id must be a UUID, or empty." });
}
