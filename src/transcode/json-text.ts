import type { JsonValue } from "@bufbuild/protobuf";
import type { Problem } from "./problem.ts";
import { problem } from "./problem.ts";

/**
 * Parses bytes as JSON in UTF-8 (RFC 8259). A byte order mark or text after the value is refused.
 * If a key is repeated, the last one wins, as in `JSON.parse`.
 */
export function parseJson(bytes: Uint8Array): { kind: "json"; json: JsonValue; text: string } | Problem {
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    return problem("invalid_json", "The body is not valid UTF-8, as JSON must be.");
  }
  try {
    return { kind: "json", json: JSON.parse(text), text };
  } catch {
    // The parser's message quotes a part of the body, which may be a secret, so it is not passed
    // on.
    const mark = text.startsWith("\ufeff") ? " It begins with a byte order mark: send it without." : "";
    return problem("invalid_json", `The body is not valid JSON.${mark}`);
  }
}

/**
 * Parses the text again and returns every number that is no safe integer as a string of its digits.
 * `JSON.parse` recurses when it has a reviver, so the depth of the text must be bounded.
 */
export function parseJsonKeepingDigits(text: string): JsonValue {
  return JSON.parse(text, (_key: string, value: JsonValue, context?: { source?: string }) =>
    typeof value === "number" && !Number.isSafeInteger(value) ? context?.source : value,
  );
}

/** True if arrays and objects are nested more than `levels` deep. */
export function isDeeperThan(levels: number, json: JsonValue): boolean {
  if (typeof json !== "object" || json === null) return false;
  return levels === 0 || Object.values(json).some((item) => isDeeperThan(levels - 1, item));
}

/** Keeps a byte order mark, so that `JSON.parse` refuses it. Throws on invalid UTF-8. */
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
