import { decodeAll } from "./percent.ts";

/** A path template of a `google.api.http` rule, parsed. */
export interface Template {
  /** The template as the rule has it. */
  readonly source: string;
  readonly segments: readonly Segment[];
  readonly variables: readonly Variable[];
  /** What follows the last segment's colon, decoded; undefined where there is none. */
  readonly verb: string | undefined;
}

type Segment =
  /** This text, decoded. */
  | { readonly kind: "literal"; readonly text: string }
  /** `*`: one segment that is not empty. */
  | { readonly kind: "one" }
  /** `**`: what is left, which may be nothing. */
  | { readonly kind: "rest" };

/**
 * A variable and the segments that it captures: from `start` up to `end`, or to the last where that is `**`.
 */
export interface Variable {
  /** As the template has it: proto field names joined by dots. */
  readonly fieldPath: string;
  readonly start: number;
  readonly end: number;
  /** True where it may capture a slash: its `%2F` is then left as it is. */
  readonly multi: boolean;
}

/**
 * Reads a template by the grammar in `google/api/http.proto`. Throws an Error that says what is wrong with
 * it, in words that complete "the template … ".
 */
export function parseTemplate(source: string): Template {
  if (!source.startsWith("/")) throw new Error("must start with a slash");
  const { path, verb } = splitVerb(source);
  const segments: Segment[] = [];
  const variables: Variable[] = [];
  for (const part of splitSegments(path)) {
    if (part.startsWith("{")) readVariable(part, segments, variables);
    else segments.push(readSegment(part));
  }
  const rest = segments.findIndex((segment) => segment.kind === "rest");
  if (rest !== -1 && rest !== segments.length - 1) throw new Error("has `**` before its last segment");
  return { source, segments, variables, verb };
}

/** A colon after the last slash and outside of braces begins the verb. */
function splitVerb(source: string): { path: string; verb: string | undefined } {
  const colon = source.indexOf(":", Math.max(source.lastIndexOf("/"), source.lastIndexOf("}")) + 1);
  if (colon === -1) return { path: source.slice(1), verb: undefined };
  return { path: source.slice(1, colon), verb: readLiteral(source.slice(colon + 1)) };
}

/** Splits at the slashes outside of braces. */
function splitSegments(path: string): string[] {
  const parts: string[] = [];
  let start = 0;
  let braces = 0;
  for (let at = 0; at <= path.length; at++) {
    const char = path[at];
    if (char === "{") braces++;
    else if (char === "}") braces--;
    else if (char === undefined || (char === "/" && braces === 0)) {
      parts.push(path.slice(start, at));
      start = at + 1;
    }
    if (braces < 0 || braces > 1) throw new Error("has braces that are nested or do not pair");
  }
  if (braces !== 0) throw new Error("has braces that are nested or do not pair");
  return parts;
}

function readVariable(part: string, segments: Segment[], variables: Variable[]): void {
  const match = /^\{([^=}]*)(?:=([^}]*))?\}$/.exec(part);
  if (match === null) throw new Error(`has text beside the variable in "${part}"`);
  const [, fieldPath = "", pattern = "*"] = match;
  if (!/^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$/.test(fieldPath)) {
    throw new Error(`has a variable "${fieldPath}" that is not a field path`);
  }
  if (variables.some((variable) => variable.fieldPath === fieldPath)) {
    throw new Error(`has the variable "${fieldPath}" twice`);
  }
  const start = segments.length;
  const inner = pattern.split("/").map(readSegment);
  segments.push(...inner);
  const multi = inner.length > 1 || inner[0]?.kind === "rest";
  variables.push({ fieldPath, start, end: segments.length, multi });
}

function readSegment(part: string): Segment {
  if (part === "*") return { kind: "one" };
  if (part === "**") return { kind: "rest" };
  return { kind: "literal", text: readLiteral(part) };
}

/**
 * RFC 3986's `pchar` without `*` and `:`, which the grammar keeps for itself; what is reserved is
 * percent-encoded.
 */
function readLiteral(part: string): string {
  if (part === "") throw new Error("has an empty segment, a trailing slash or an empty verb");
  const text = /^[A-Za-z0-9\-._~!$&'()+,;=@%]+$/.test(part) ? decodeAll(part) : undefined;
  if (text === undefined) throw new Error(`has "${part}" where a literal, "*", "**" or a variable must be`);
  return text;
}
