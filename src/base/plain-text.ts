import { bounds } from "../bounds.ts";
import { fail } from "../refusal/refusal.ts";

/** A key's label; empty if there is none. */
export function readLabel(value: string, param: string): string {
  return readPlainText(value, param, bounds.labelCodePointsMax);
}

/** The text of a search for keys; empty if there is none. It is never part of a refusal. */
export function readKeyQuery(value: string, param: string): string {
  return readPlainText(value, param, bounds.keyQueryCodePointsMax);
}

/** The display name of a team or an app; empty if there is none. */
export function readDisplayName(value: string, param: string): string {
  return readPlainText(value, param, bounds.displayNameCodePointsMax);
}

// Control characters, line and paragraph separators, bidirectional formatting and lone surrogates
// can make a list look different from what it contains. The zero-width joiner is allowed: emoji and
// several scripts need it.
const misleading = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069\p{Cs}]/u;

/**
 * One line of text, trimmed. Refuses with INVALID_ARGUMENT more than `codePointsMax` Unicode code
 * points, and characters that could mislead readers of a list.
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
