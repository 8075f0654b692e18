// Reads a JSON body into the request: parsed with every digit, checked by the descriptor, put at
// its place. A second reading restores 64-bit integers that `JSON.parse` rounded.

import {
  type DescField,
  type DescMessage,
  type JsonObject,
  type JsonValue,
  ScalarType,
} from "@bufbuild/protobuf";
import type { Binding } from "./binding.ts";
import { changedNumberIn } from "./changed-number.ts";
import { fieldOfMany, fieldsByName, hasPlainJson, isJsonObject, isWrapper } from "./json-form.ts";
import { isDeeperThan, type ParsedJson, parseJson, parseJsonKeepingDigits } from "./json-text.ts";
import { type Checks, takesNull } from "./message-check.ts";
import { type Check, type Problem, problem, problemOf } from "./problem.ts";
import { type FieldPath, findIn, setElsewhere } from "./request-json.ts";
import { messageDepthMax, tooDeep } from "./value-check.ts";

/** The two steps from the bytes of a body to its part of the request. */
export interface BodyReader {
  /** Returns the JSON of the body, or why it is none. */
  parse(bytes: Uint8Array): ParsedJson | Problem;
  /** Returns the checked JSON that the body adds to the request, or why the body is refused. */
  check(parsed: ParsedJson): { readonly kind: "json"; readonly json: JsonObject } | Problem;
}

/** Compiles the body reader of a binding. An empty body is an empty message, or an absent field. */
export function createBodyReader(binding: Binding, checks: Checks): BodyReader {
  const { body } = binding;
  if (body.kind === "none") return { parse: parseNone, check: () => ({ kind: "json", json: {} }) };
  const target =
    body.kind === "whole" ? wholeMessage(binding, checks) : oneField(binding, body.field, checks);
  const manyIn = body.kind === "whole" ? fieldOfMany(binding.method.input) : body.field;
  return {
    parse: (bytes) => (bytes.length === 0 ? noBody : parseJson(bytes, manyIn)),
    check: (parsed) => checkBody(parsed, target),
  };
}

const noBody: ParsedJson = { kind: "json", json: {}, text: "" };

function parseNone(bytes: Uint8Array): ParsedJson | Problem {
  if (bytes.length === 0) return noBody;
  return problem("invalid_argument", "This method takes no body. Send none.");
}

function checkBody(parsed: ParsedJson, target: Target): ReturnType<BodyReader["check"]> {
  // No body, because no JSON is empty.
  if (parsed.text === "") return { kind: "json", json: {} };
  let { json } = parsed;
  const refused = target.refuse(json);
  if (refused !== undefined) return refused;
  let fault = target.check(json, 0);
  if (fault?.inexact) {
    if (isDeeperThan(jsonDepthMax, json)) return problem("invalid_argument", `The body ${tooDeep().words}.`);
    json = target.restore(json, parseJsonKeepingDigits(parsed.text));
    fault = target.check(json, 0);
  }
  fault ??= changedNumberIn(target.type, parsed);
  if (fault === undefined) return { kind: "json", json: target.wrap(json) };
  if (fault.path === "") return problem("invalid_argument", `The body ${fault.words}.`);
  return problemOf(fault.path, fault.words);
}

/**
 * The depth of JSON, in levels, that the deepest allowed message can have. Each level of messages
 * can take two levels of JSON: the message, and the list or map that holds it.
 */
const jsonDepthMax = 2 * messageDepthMax + 1;

/** What the body of a binding is read into: the whole message or one field. */
interface Target {
  readonly type: DescMessage | DescField;
  /** Refuses a body that the field's type allows but this binding does not. */
  refuse(json: JsonValue): Problem | undefined;
  readonly check: Check;
  /**
   * Returns the JSON with exact large integers, taken from a second reading that kept their digits.
   */
  restore(json: JsonValue, exact: JsonValue): JsonValue;
  /** Returns the request's JSON with the body at its place in it. */
  wrap(json: JsonValue): JsonObject;
}

function wholeMessage(binding: Binding, checks: Checks): Target {
  const { input } = binding.method;
  const paths = binding.variables.map((variable) => variable.fields);
  return {
    type: input,
    refuse(json) {
      // Some well-known types have JSON that is not an object. A whole body must be one all the
      // same.
      if (!isJsonObject(json)) return problem("invalid_argument", "The body must be a JSON object.");
      return collision(json, paths);
    },
    check: checks.ofBody(input, setElsewhere(binding)),
    restore: (json, exact) => restoreMessage(input, json, exact),
    wrap: (json) => (isJsonObject(json) ? json : {}),
  };
}

function oneField(binding: Binding, field: DescField, checks: Checks): Target {
  const check = checks.ofField(field);
  const nullable = takesNull(field);
  const paths = binding.variables.flatMap(({ fields: [first, second, ...rest] }): FieldPath[] =>
    first === field && second !== undefined ? [[second, ...rest]] : [],
  );
  return {
    type: field,
    refuse: (json) => (isJsonObject(json) ? collision(json, paths) : undefined),
    check: (json, depth) => (json === null && !nullable ? undefined : check(json, depth)),
    restore: (json, exact) => restoreField(field, json, exact),
    wrap: (json) => (json === null && !nullable ? {} : { [field.jsonName]: json }),
  };
}

/**
 * Only the path may set the fields it binds. A body with such a field is refused, even if the
 * values are equal.
 */
function collision(json: JsonObject, paths: readonly FieldPath[]): Problem | undefined {
  for (const path of paths) {
    const name = findIn(json, path);
    if (name !== undefined) return problemOf(name, "is set by the path. Leave it out of the body");
  }
  return undefined;
}

/**
 * Restores the 64-bit integers that `JSON.parse` rounded: a number beyond 2^53 in a 64-bit field
 * becomes a string with all its digits. `exact` is the same text parsed with such numbers as
 * strings. Both are walked together, along the fields that the descriptor knows. The walk recurses,
 * so the depth of `json` must be bounded. Changes objects in place and returns the value.
 */
function restoreMessage(message: DescMessage, json: JsonValue, exact: JsonValue | undefined): JsonValue {
  if (!isJsonObject(json) || !isJsonObject(exact)) return json;
  const fields = fieldsByName(message);
  for (const [key, value] of Object.entries(json)) {
    const field = fields.get(key);
    if (field !== undefined) json[key] = restoreField(field, value, exact[key]);
  }
  return json;
}

/** Like `restoreMessage`, for the value of one field. */
function restoreField(field: DescField, json: JsonValue, exact: JsonValue | undefined): JsonValue {
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
