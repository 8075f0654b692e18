import { bounds } from "../../bounds.ts";

// As the server has it: what could make a list say something else than it holds.
const misleading = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069\p{Cs}]/u;

/** How long a label is once trimmed, in Unicode code points: `<input maxlength>` would count UTF-16 units. */
export function labelLength(label: string): number {
  return [...label.trim()].length;
}

/** Why a key can't be called this; null where it can. Refuses exactly what the server refuses. */
export function labelProblem(label: string): string | null {
  if (labelLength(label) > bounds.labelCodePointsMax) {
    return `The label is too long. Use at most ${bounds.labelCodePointsMax} characters.`;
  }
  if (misleading.test(label.trim())) {
    return "The label holds hidden control or text-direction characters. Remove them.";
  }
  return null;
}
