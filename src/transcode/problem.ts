/**
 * Why a request can't become a message. The caller may see all of it. It never repeats a value that
 * the caller sent.
 */
export interface Problem {
  readonly kind: "problem";
  readonly problem: "invalid_json" | "invalid_argument" | "unsupported_media_type";
  /**
   * The field or parameter at fault, as the caller wrote it, at most `paramCharsMax` long. Null if
   * the fault is not in one of them.
   */
  readonly param: string | null;
  /** A sentence that says what the caller should do. */
  readonly words: string;
}

/**
 * Names come from the caller and are repeated in responses and logs, so their length is bounded.
 */
export const paramCharsMax = 200;

export function problem(kind: Problem["problem"], words: string): Problem {
  return { kind: "problem", problem: kind, param: null, words };
}

/** A problem with one field. `words` follow the field's name, as in "must be a string". */
export function problemOf(name: string, words: string): Problem {
  const shown = name.length > paramCharsMax ? `${name.slice(0, paramCharsMax - 1)}…` : name;
  const param = shown.toWellFormed();
  return { kind: "problem", problem: "invalid_argument", param, words: `${param} ${words}.` };
}
