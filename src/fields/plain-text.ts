import { bounds } from "../config.ts";
import { fail } from "../error.ts";

/** A key's label: optional, so empty means absent. */
export function readLabel(value: string, param: string): string {
  return readPlainText(value, param, bounds.labelCodePointsMax);
}

/** What people call a team or an app; empty where they gave no name. */
export function readDisplayName(value: string, param: string): string {
  return readPlainText(value, param, bounds.displayNameCodePointsMax);
}

// Control characters, line and paragraph separators, bidirectional formatting and lone surrogates can make a
// list say something else than it holds. The zero-width joiner stays: emoji and several scripts need it.
const misleading = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069\p{Cs}]/u;

/**
 * A line that people wrote for people, trimmed; empty where nothing is left. Refuses with INVALID_ARGUMENT
 * what is over `codePointsMax` Unicode code points, or could mislead in a list.
 */
function readPlainText(value: string, param: string, codePointsMax: number): string {
  const text = value.trim();
  // Checked before it is split: a code point has at most two units.
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
