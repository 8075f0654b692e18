import { bounds } from "../../bounds.ts";

// The same as on the server: characters that could make a list show something else than it holds.
const misleading = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069\p{Cs}]/u;

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
  return null;
}
