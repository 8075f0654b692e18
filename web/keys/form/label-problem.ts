import { bounds } from "../../bounds.ts";

// The same as on the server: characters that could make a list show something else than it holds.
const misleading = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069\p{Cs}]/u;

// The same as on the server: a whole API key or service token, or a sign-in link.
const secret = /_[0-9a-hjkmnp-tv-z]{24}(?:\.|%2e)[0-9a-z]{49}|#code=[\w-]{43}/i;

/** The length of the trimmed label in code points. `<input maxlength>` would count UTF-16 units. */
export function labelLength(label: string): number {
  return [...label.trim()].length;
}

/** True for a label that is refused for its length: so much is told while it is typed. */
export function isTooLong(label: string): boolean {
  return labelLength(label) > bounds.labelCodePointsMax;
}

/** Why the server would refuse this label; null if it would accept it. */
export function labelProblem(label: string): string | null {
  if (isTooLong(label)) {
    return `The label is too long. Use at most ${bounds.labelCodePointsMax} characters.`;
  }
  if (misleading.test(label.trim())) {
    return "The label holds hidden control or text-direction characters. Remove them.";
  }
  if (secret.test(label.normalize("NFKC"))) {
    return "The label holds an API key or a sign-in link. Everyone in the team would see it. Remove it.";
  }
  return null;
}
