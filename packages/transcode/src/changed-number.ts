// Numbers in JSON of any form, which has no field that would say how exact they are.

import type { DescField, DescMessage, JsonValue } from "@bufbuild/protobuf";
import { fieldsByName, hasPlainJson, isJsonObject } from "./json-form.ts";
import { isUnsafe, type ParsedJson, parseJsonMarkingChanged, someNumber } from "./json-text.ts";
import { type Fault, prefixPath } from "./problem.ts";
import { notExact } from "./value-check.ts";

/**
 * The fault of checked JSON in which a `Struct`, a `Value` or a `ListValue` has a number that
 * `JSON.parse` has changed: one that is written in digits alone, past 2^53. The text is read again
 * only where there is a number of that size.
 */
export function changedNumberIn(type: DescMessage | DescField, parsed: ParsedJson): Fault | undefined {
  const find = type.kind === "message" ? inMessage : inField;
  if (find(type as never, parsed.json, isUnsafe) === undefined) return undefined;
  return find(type as never, parseJsonMarkingChanged(parsed.text), isInfinite);
}

type Test = (number: number) => boolean;

const isInfinite: Test = (number) => !Number.isFinite(number);

function inMessage(message: DescMessage, json: JsonValue, test: Test): Fault | undefined {
  if (anyNumbers.has(message.typeName)) return someNumber(json, test) ? notExact() : undefined;
  if (!hasPlainJson(message) || !isJsonObject(json)) return undefined;
  const fields = fieldsByName(message);
  for (const [key, value] of Object.entries(json)) {
    const field = fields.get(key);
    const fault = field && inField(field, value, test);
    if (fault !== undefined) return prefixPath(key, fault);
  }
  return undefined;
}

function inField({ message, fieldKind }: DescField, json: JsonValue, test: Test): Fault | undefined {
  if (message === undefined || json === null) return undefined;
  const isMany = fieldKind === "list" || fieldKind === "map";
  for (const item of isMany ? Object.values(json) : [json]) {
    const fault = inMessage(message, item, test);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

const anyNumbers = new Set(["google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"]);
