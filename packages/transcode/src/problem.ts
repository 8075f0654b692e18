// What is wrong with a request, in words for its caller, and what is wrong with one JSON value in
// it.

import type { JsonValue } from "@bufbuild/protobuf";

/**
 * Why a request can't become a message. The caller may see all of it. It never repeats a value that
 * the caller sent.
 */
export interface Problem {
  readonly kind: "problem";
  readonly problem: "invalid_json" | "invalid_argument" | "unsupported_media_type";
  /**
   * The field or parameter at fault, as the caller wrote it, of any length. Null if the fault is
   * not in one of them.
   */
  readonly param: string | null;
  /**
   * A sentence that says what the caller should do. With a param, the sentence begins with its
   * name, and the words follow it.
   */
  readonly words: string;
  /** With an unsupported type or compression: what is read instead. */
  readonly readable?: { readonly accept: string } | { readonly accept_encoding: string };
}

export function problem(kind: Problem["problem"], words: string): Problem {
  return { kind: "problem", problem: kind, param: null, words };
}

/** A problem with one field. `words` follow the field's name, as in "must be a string". */
export function problemOf(param: string, words: string): Problem {
  return { kind: "problem", problem: "invalid_argument", param, words: `${words}.` };
}

/** What is wrong with a JSON value, and where. */
export interface Fault {
  /**
   * The path from the checked value to the value at fault, spelled as the caller spelled it. Empty
   * if the fault is in the checked value itself.
   */
  path: string;
  /** Words that follow the path, such as "must be a string". */
  readonly words: string;
  /** True if a number is too large for `JSON.parse` to keep exactly: read its digits again. */
  readonly inexact?: true;
}

/** Checks one JSON value that is nested `depth` levels deep. Undefined means that it is fine. */
export type Check = (value: JsonValue, depth: number) => Fault | undefined;

/** Adds a step to the front of a fault's path. */
export function prefixPath(step: string, fault: Fault): Fault {
  const dot = fault.path === "" || fault.path.startsWith("[") ? "" : ".";
  fault.path = `${step}${dot}${fault.path}`;
  return fault;
}
