// The path templates of `google.api.http`, and how the percent escapes of a path are decoded.

/** A parsed path template of a `google.api.http` rule. */
export interface Template {
  /** The template as written in the rule. */
  readonly source: string;
  readonly segments: readonly Segment[];
  readonly variables: readonly Variable[];
  /** The decoded text after the last segment's colon; undefined if there is none. */
  readonly verb: string | undefined;
}

type Segment =
  /** Exactly this text, decoded. */
  | { readonly kind: "literal"; readonly text: string }
  /** `*`: one segment that is not empty. */
  | { readonly kind: "one" }
  /** `**`: all remaining segments, which may be none. */
  | { readonly kind: "rest" };

/**
 * A variable and the segments that it captures: from index `start` up to, but without, `end`. A
 * variable that ends in `**` captures all remaining segments.
 */
export interface Variable {
  /** As written in the template: proto field names joined by dots. */
  readonly fieldPath: string;
  readonly start: number;
  readonly end: number;
  /** True if the value may contain a slash. Then `%2F` in it is not decoded. */
  readonly multi: boolean;
}

/**
 * Parses a template by the grammar in `google/api/http.proto`. Throws an Error with words that
 * complete the sentence "the template …".
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

/** A verb starts at a colon after the last slash and outside of braces. */
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
 * Accepts the `pchar` of RFC 3986 without `*` and `:`, which have a meaning in the grammar. Other
 * characters must be percent-encoded.
 */
function readLiteral(part: string): string {
  if (part === "") throw new Error("has an empty segment, a trailing slash or an empty verb");
  const text = /^[A-Za-z0-9\-._~!$&'()+,;=@%]+$/.test(part) ? decodeAll(part) : undefined;
  if (text === undefined) throw new Error(`has "${part}" where a literal, "*", "**" or a variable must be`);
  return text;
}

/**
 * Decodes every percent escape (RFC 3986). Undefined if an escape is malformed or not UTF-8, or if
 * a character is not allowed in a URI.
 */
export function decodeAll(text: string): string | undefined {
  if (isPlain(text)) return text;
  if (!isUriText(text)) return undefined;
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/**
 * Like `decodeAll`, but keeps `%2F` and `%2f`, so that a slash in the result was a slash in the
 * URI.
 */
export function decodeExceptSlash(text: string): string | undefined {
  if (isPlain(text)) return text;
  if (!isUriText(text)) return undefined;
  try {
    return decodeURIComponent(text.replaceAll("%2F", "%252F").replaceAll("%2f", "%252f"));
  } catch {
    return undefined;
  }
}

/** Printable ASCII without a percent sign needs no decoding. This is the common case. */
function isPlain(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code <= 0x20 || code >= 0x7f || code === 0x25) return false;
  }
  return true;
}

/** The encoding of raw bytes above ASCII is unknown, so they must be percent-encoded. */
function isUriText(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code <= 0x20 || code >= 0x7f) return false;
  }
  return true;
}
