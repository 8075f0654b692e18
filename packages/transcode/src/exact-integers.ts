import { type DescField, type DescMessage, type JsonValue, ScalarType } from "@bufbuild/protobuf";
import { fieldsByName, hasPlainJson, isWrapper } from "./json-form.ts";
import { isJsonObject } from "./known-type-check.ts";

/**
 * Restores the 64-bit integers that `JSON.parse` rounded: a number beyond 2^53 in a 64-bit field
 * becomes a string with all its digits. `exact` is the same text parsed with such numbers as
 * strings. Both are walked together, along the fields that the descriptor knows. The walk recurses,
 * so the depth of `json` must be bounded. Changes objects in place and returns the value.
 */
export function restoreMessage(
  message: DescMessage,
  json: JsonValue,
  exact: JsonValue | undefined,
): JsonValue {
  if (!isJsonObject(json) || !isJsonObject(exact)) return json;
  const fields = fieldsByName(message);
  for (const [key, value] of Object.entries(json)) {
    const field = fields.get(key);
    if (field !== undefined) json[key] = restoreField(field, value, exact[key]);
  }
  return json;
}

/** Like `restoreMessage`, for the value of one field. */
export function restoreField(field: DescField, json: JsonValue, exact: JsonValue | undefined): JsonValue {
  if (field.fieldKind === "list" && Array.isArray(json) && Array.isArray(exact)) {
    return json.map((item, index) => restoreItem(field, item, exact[index]));
  }
  if (field.fieldKind === "map" && isJsonObject(json) && isJsonObject(exact)) {
    for (const [key, item] of Object.entries(json)) json[key] = restoreItem(field, item, exact[key]);
    return json;
  }
  return restoreItem(field, json, exact);
}

function restoreItem(field: DescField, json: JsonValue, exact: JsonValue | undefined): JsonValue {
  const { message } = field;
  if (message !== undefined && hasPlainJson(message)) return restoreMessage(message, json, exact);
  const scalar = message !== undefined && isWrapper(message) ? message.fields[0]?.scalar : field.scalar;
  if (scalar === undefined || !scalars64.has(scalar)) return json;
  if (typeof json !== "number" || !Number.isInteger(json) || Number.isSafeInteger(json)) return json;
  // A number written as 1e18 is a whole number but has no digits to restore.
  return typeof exact === "string" && /^-?[0-9]+$/.test(exact) ? exact : String(BigInt(json));
}

const scalars64: ReadonlySet<ScalarType> = new Set([
  ScalarType.INT64,
  ScalarType.SINT64,
  ScalarType.SFIXED64,
  ScalarType.UINT64,
  ScalarType.FIXED64,
]);
