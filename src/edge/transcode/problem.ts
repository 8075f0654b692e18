/**
 * Why a request can't become a message. All of it is public; none of it repeats a value that the caller sent.
 */
export interface Problem {
  readonly kind: "problem";
  readonly problem: "invalid_json" | "invalid_argument" | "unsupported_media_type";
  /**
   * The field or parameter at fault, as the caller wrote it, at most `paramCharsMax` long; null: none by
   * itself.
   */
  readonly param: string | null;
  /** A sentence that says what to do. */
  readonly words: string;
}

/** Names come from the caller and go back to the caller, so they are cut to a length that no log minds. */
export const paramCharsMax = 200;

export function problem(kind: Problem["problem"], words: string): Problem {
  return { kind: "problem", problem: kind, param: null, words };
}

/** The problem of one field: `words` follow its name, as in "must be a string". */
export function problemOf(name: string, words: string): Problem {
  const shown = name.length > paramCharsMax ? `${name.slice(0, paramCharsMax - 1)}…` : name;
  const param = shown.toWellFormed();
  return { kind: "problem", problem: "invalid_argument", param, words: `${param} ${words}.` };
}
