import type { DescField, DescMessage, JsonObject } from "@bufbuild/protobuf";
import type { Binding } from "./binding.ts";
import { fieldsByName, isJsonScalar, isPlainMessage } from "./json-form.ts";
import { messageDepthMax } from "./known-type-check.ts";
import type { Checks } from "./message-check.ts";
import { decodeAll } from "./percent.ts";
import { type Problem, problem, problemOf } from "./problem.ts";
import { jsonOfText, place } from "./request-json.ts";

/**
 * Adds the parameters of a query (not decoded yet) to the request's JSON. Returns the first
 * problem.
 */
export type QueryReader = (query: string, json: JsonObject) => Problem | undefined;

/**
 * Compiles the query reader of a binding. A parameter's name is a path of fields in JSON names or
 * proto names. A list repeats the name. A parameter is refused if it is not a field, is set by the
 * path or the body, is given twice or has a wrong value. A plus sign is a plus sign, not a space.
 */
export function createQueryReader(binding: Binding, checks: Checks): QueryReader {
  return (query, json) => {
    if (query === "") return undefined;
    for (const pair of query.split("&")) {
      if (pair === "") continue;
      const equals = pair.indexOf("=");
      const rawName = equals === -1 ? pair : pair.slice(0, equals);
      const name = decodeAll(rawName);
      if (name === undefined) return problemOf(rawName, "has a percent escape that can't be decoded");
      if (name === "") return problem("invalid_argument", "A query parameter has no name.");
      const path = resolve(binding, name);
      if (typeof path === "string") return problemOf(name, path);
      const text = equals === -1 ? "" : decodeAll(pair.slice(equals + 1));
      if (text === undefined) return problemOf(name, "has a percent escape that can't be decoded");
      const leaf = path.at(-1) ?? path[0];
      const value = jsonOfText(leaf, text);
      const fault = checks.ofItem(leaf)(value, 0);
      if (fault !== undefined) return problemOf(name, fault.words);
      const placed = place(json, path, value);
      if (placed.kind === "taken") return problemOf(name, "is given twice. Send it once");
      if (placed.kind === "excluded") return problemOf(name, `and ${placed.by} can't both be set`);
    }
    return undefined;
  };
}

/** Returns the fields that a parameter's name stands for, or what is wrong with the name. */
function resolve(binding: Binding, name: string): [DescField, ...DescField[]] | string {
  if (binding.body.kind === "whole") return "can't be sent in the query: all but the path goes into the body";
  const names = name.split(".");
  if (names.length > messageDepthMax) return `is nested deeper than ${messageDepthMax} levels`;
  let message: DescMessage | undefined = binding.method.input;
  const fields: DescField[] = [];
  for (const each of names) {
    const field: DescField | undefined = message && fieldsByName(message).get(each);
    if (field === undefined) return "is no parameter here. Remove it, or check its spelling";
    fields.push(field);
    message = isPlainMessage(field) ? field.message : undefined;
  }
  const [first, ...rest] = fields;
  const leaf = fields.at(-1);
  if (first === undefined || leaf === undefined) return "is no parameter here";
  if (binding.body.kind === "field" && first === binding.body.field)
    return "is set by the body, not by the query";
  const bound = binding.variables.some(
    (variable) =>
      variable.fields.length === fields.length && variable.fields.every((field, at) => field === fields[at]),
  );
  if (bound) return "is set by the path, not by the query";
  if (isPlainMessage(leaf)) return "is a message: send its fields, each by its own name after a dot";
  if (!isJsonScalar(leaf, { orList: true })) return "can't be sent in the query";
  return [first, ...rest];
}
