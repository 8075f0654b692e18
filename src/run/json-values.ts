/** The JSON that callers and apps give beside text: which values it may have. */

import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { isUnsafe, jsonValuesMax, parseJsonMarkingChanged, someNumber } from "#transcode/json-text.ts";
import { fail } from "../refusal/refusal.ts";

/**
 * How deep objects and arrays may be nested: protobuf nests three messages for each level, and its
 * readers stop at 100.
 */
const jsonDepthMax = 32;

/** Throws INVALID_ARGUMENT, which names the field and says what to send instead. */
export function checkInput(input: JsonObject): void {
  const fault = faultOfJson(input);
  if (fault !== undefined) throw fail("INVALID_ARGUMENT", { param: "input", problem: `input ${fault}` });
}

/**
 * Why the value at a place of a JSON text must not be passed on; undefined where it may. Numbers
 * are looked up in the text, as `JSON.parse` has changed those with too many digits.
 */
export function faultInText(
  text: string,
  value: JsonValue,
  find: (json: JsonValue) => JsonValue | undefined,
): string | undefined {
  const fault = faultOfJson(value);
  if (fault !== undefined || !someNumber(value, isUnsafe)) return fault;
  return faultOfJson(find(parseJsonMarkingChanged(text)) ?? null);
}

/** Why it is no JSON that passes every entry and every store as it is; undefined where it does. */
export function faultOfJson(json: JsonValue): string | undefined {
  let values = 0;
  const faultIn = (value: JsonValue, depth: number): string | undefined => {
    values += 1;
    if (values > jsonValuesMax) return `has more than ${jsonValuesMax} values. Send fewer.`;
    if (typeof value === "string") return value.isWellFormed() ? undefined : notUnicode;
    if (typeof value === "number") return Number.isFinite(value) ? undefined : notExact;
    if (typeof value !== "object" || value === null) return undefined;
    if (depth === jsonDepthMax) return `is more than ${jsonDepthMax} deep. Nest less.`;
    if (!Array.isArray(value) && !Object.keys(value).every((name) => name.isWellFormed())) return notUnicode;
    for (const item of Object.values(value)) {
      const fault = faultIn(item, depth + 1);
      if (fault !== undefined) return fault;
    }
    return undefined;
  };
  return faultIn(json, 0);
}

const notExact = "has a number that a double can't hold. Send it as a string.";
const notUnicode = "is not Unicode: it holds a lone surrogate.";
