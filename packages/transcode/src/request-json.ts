// What the path and the query set in the request's JSON, and what the body has set there already.

import {
  type DescField,
  type DescMessage,
  type JsonObject,
  type JsonValue,
  ScalarType,
} from "@bufbuild/protobuf";
import type { Binding } from "./binding.ts";
import { fieldsByName, isJsonObject, isJsonScalar, isPlainMessage, isWrapper } from "./json-form.ts";
import { type Checks, siblingIn, wordsOfNames } from "./message-check.ts";
import { type Fault, type Problem, problem, problemOf } from "./problem.ts";
import { decodeAll } from "./template.ts";
import { messageDepthMax } from "./value-check.ts";

/**
 * Compiles the reader that adds the values from the path to the request's JSON. It returns the
 * first problem.
 */
export function createPathReader(binding: Binding, checks: Checks) {
  const variables = binding.variables.map(({ fieldPath, fields }) => {
    const leaf = fields.at(-1) ?? fields[0];
    return { fieldPath, fields, leaf, check: checks.ofItem(leaf) };
  });
  return (captures: ReadonlyMap<string, string>, json: JsonObject): Problem | undefined => {
    for (const { fieldPath, fields, leaf, check } of variables) {
      const value = jsonOfText(leaf, captures.get(fieldPath) ?? "");
      const fault = check(value, 0);
      if (fault !== undefined) return problemOf(fieldPath, plainWords(fault));
      const placed = place(json, fields, value);
      if (placed.kind === "excluded") return problemOf(placed.by, `and ${fieldPath} can't both be set`);
    }
    return undefined;
  };
}

/**
 * Compiles the reader that adds the parameters of a query, not decoded yet, to the request's JSON.
 * It returns the first problem. A parameter's name is a path of fields in JSON names or
 * proto names. A list repeats the name. A parameter is refused if it is not a field, is set by the
 * path or the body, is given twice or has a wrong value. A plus sign is a plus sign, not a space.
 */
export function createQueryReader(binding: Binding, checks: Checks) {
  return (query: string, json: JsonObject): Problem | undefined => {
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
      if (fault !== undefined) return problemOf(name, plainWords(fault));
      const placed = place(json, path, value);
      if (placed.kind === "taken") return problemOf(name, "is given twice. Send it once");
      if (placed.kind === "excluded") return problemOf(name, `and ${placed.by} can't both be set`);
    }
    return undefined;
  };
}

/** A value has quotes in JSON alone, and its example must not have them here. */
function plainWords({ words }: Fault): string {
  return words.replaceAll('"', "");
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
    if (field === undefined) {
      const known = message ? wordsOfNames(message, setElsewhere(binding)) : "Remove it";
      return `is no parameter here. ${known}`;
    }
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

/** The fields of the message that the path or the body sets. */
export function setElsewhere({ variables, body }: Binding): DescField[] {
  const inPath = variables.flatMap(({ fields: [field, ...below] }) => (below.length === 0 ? [field] : []));
  return body.kind === "field" ? [...inPath, body.field] : inPath;
}

/**
 * Converts a value from a path or a query to the JSON of the field, or of one item of a list. Text
 * that does not fit the field stays a string, and the field's check refuses it.
 */
function jsonOfText(field: DescField, text: string): JsonValue {
  if (field.enum !== undefined) return /^-?[0-9]{1,10}$/.test(text) ? Number(text) : text;
  const scalar = field.message === undefined ? field.scalar : wrapped(field);
  if (scalar === ScalarType.BOOL && text === "true") return true;
  if (scalar === ScalarType.BOOL && text === "false") return false;
  return text;
}

function wrapped(field: DescField): ScalarType | undefined {
  return field.message !== undefined && isWrapper(field.message)
    ? field.message.fields[0]?.scalar
    : undefined;
}

type Placed =
  | { readonly kind: "placed" }
  /** The leaf has a value already. */
  | { readonly kind: "taken" }
  /** The leaf, or a field above it, is in a oneof of which this other member is set. */
  | { readonly kind: "excluded"; readonly by: string };

/**
 * Sets the leaf of the path and creates the objects above it. A list gets one more item. A value
 * that is already there is never changed.
 */
function place(root: JsonObject, path: FieldPath, value: JsonValue): Placed {
  let object = root;
  let above = "";
  let depth = 0;
  for (const field of path) {
    const sibling = siblingIn(object, field);
    if (sibling !== undefined) return { kind: "excluded", by: above + sibling };
    const key = keyIn(object, field) ?? field.jsonName;
    const present = object[key];
    if (++depth < path.length) {
      const next: JsonObject = isJsonObject(present) ? present : {};
      object[key] = next;
      object = next;
      above += `${key}.`;
    } else if (field.fieldKind === "list") {
      if (Array.isArray(present)) present.push(value);
      else object[key] = [value];
    } else {
      if (present !== undefined) return { kind: "taken" };
      object[key] = value;
    }
  }
  return { kind: "placed" };
}

/**
 * Returns the path in the object's own spelling if the object has the leaf, even if it is null.
 * Otherwise undefined.
 */
export function findIn(root: JsonObject, path: FieldPath): string | undefined {
  const names: string[] = [];
  let value: JsonValue | undefined = root;
  for (const field of path) {
    if (!isJsonObject(value)) return undefined;
    const key = keyIn(value, field);
    if (key === undefined) return undefined;
    names.push(key);
    value = value[key];
  }
  return names.join(".");
}

/** A path of fields: from a field of the message itself down to the last one, the leaf. */
export type FieldPath = readonly [DescField, ...DescField[]];

/**
 * The key that the object uses for the field: its JSON name or its proto name. Undefined if absent.
 */
function keyIn(object: JsonObject, field: DescField): string | undefined {
  if (Object.hasOwn(object, field.jsonName)) return field.jsonName;
  return Object.hasOwn(object, field.name) ? field.name : undefined;
}
