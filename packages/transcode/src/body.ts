import type { DescField, JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Binding } from "./binding.ts";
import { restoreField, restoreMessage } from "./exact-integers.ts";
import { isDeeperThan, parseJson, parseJsonKeepingDigits } from "./json-text.ts";
import { isJsonObject, messageDepthMax, tooDeep } from "./known-type-check.ts";
import { type Checks, takesNull } from "./message-check.ts";
import { type Problem, problem, problemOf } from "./problem.ts";
import { type FieldPath, findIn } from "./request-json.ts";
import type { Check } from "./scalar-check.ts";

/** Returns the checked JSON that the body adds to the request, or why the body is refused. */
export type BodyReader = (bytes: Uint8Array) => { kind: "json"; json: JsonObject } | Problem;

/** Compiles the body reader of a binding. An empty body is an empty message, or an absent field. */
export function createBodyReader(binding: Binding, checks: Checks): BodyReader {
  const { body } = binding;
  if (body.kind === "none") return readNone;
  const target =
    body.kind === "whole" ? wholeMessage(binding, checks) : oneField(binding, body.field, checks);
  return (bytes) => {
    if (bytes.length === 0) return { kind: "json", json: {} };
    const read = parseJson(bytes);
    if (read.kind === "problem") return read;
    let { json } = read;
    const refused = target.refuse(json);
    if (refused !== undefined) return refused;
    let fault = target.check(json, 0);
    if (fault?.inexact) {
      if (isDeeperThan(jsonDepthMax, json))
        return problem("invalid_argument", `The body ${tooDeep().words}.`);
      json = target.restore(json, parseJsonKeepingDigits(read.text));
      fault = target.check(json, 0);
    }
    if (fault === undefined) return { kind: "json", json: target.wrap(json) };
    if (fault.path === "") return problem("invalid_argument", `The body ${fault.words}.`);
    return problemOf(fault.path, fault.words);
  };
}

/**
 * The depth of JSON, in levels, that the deepest allowed message can have. Each level of messages
 * can take two levels of JSON: the message, and the list or map that holds it.
 */
const jsonDepthMax = 2 * messageDepthMax + 1;

/** What the body of a binding is read into: the whole message or one field. */
interface Target {
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
    refuse(json) {
      // Some well-known types have JSON that is not an object. A whole body must be one all the
      // same.
      if (!isJsonObject(json)) return problem("invalid_argument", "The body must be a JSON object.");
      return collision(json, paths);
    },
    check: checks.ofMessage(input),
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

function readNone(bytes: Uint8Array): ReturnType<BodyReader> {
  if (bytes.length > 0) return problem("invalid_argument", "This method takes no body. Send none.");
  return { kind: "json", json: {} };
}
