// The fast way for messages that have only strings set, as most have: their JSON is read and
// written without a walk over the descriptor. What it can't read is left to the decoder, with the
// same result.

import {
  create,
  type DescField,
  type DescMessage,
  type JsonObject,
  type JsonValue,
  type Message,
  ScalarType,
} from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import type { Binding } from "./binding.ts";
import { fieldsByName, hasPlainJson, isHttpBody, isJsonObject } from "./json-form.ts";
import type { MatchedRoute } from "./route-table.ts";

/**
 * Compiles a writer for a flat message, like `toJson` with `alwaysEmitImplicit`. Most responses
 * hold only strings, and Protobuf-ES takes several times as long to write them. Undefined if the
 * type is not flat; the writer returns undefined for another message, or a value that is no string.
 */
export function flatWriterOf(desc: DescMessage): ((message: Message) => JsonObject | undefined) | undefined {
  if (!isFlat(desc)) return undefined;
  const fields = desc.fields.toSorted((a, b) => a.number - b.number);
  return (message) => {
    if (message.$typeName !== desc.typeName) return undefined;
    // Protobuf-ES stores fields as properties under their local names.
    const values = message as Message & Readonly<Record<string, unknown>>;
    const json: JsonObject = {};
    for (const { jsonName, localName, presence } of fields) {
      const value = values[localName];
      if (typeof value === "string") json[jsonName] = value;
      else if (value !== undefined || presence === implicit) return undefined;
    }
    return json;
  };
}

/**
 * Compiles a fast reader of the most common request, for a flat type: the body is an object with
 * some of its strings, each once, and the others are in the path. It walks over the JSON once. The
 * decoder needs several walks to name a fault, so for any fault this reader returns undefined.
 * Undefined for a binding of any other kind.
 */
export function flatRequestReaderOf(
  binding: Binding,
): ((route: MatchedRoute, json: JsonValue) => Message | undefined) | undefined {
  const desc = binding.method.input;
  const { variables } = binding;
  const fits = binding.body.kind === "whole" && isFlat(desc) && desc.fields.length <= flagsMax;
  if (!fits || variables.some(({ fields }) => fields.length > 1)) return undefined;
  const inPath = variables.map(({ fieldPath, fields: [{ localName }] }) => ({ fieldPath, localName }));
  const inBody = bodyFieldsOf(binding);

  return ({ captures, query }, json) => {
    if (query !== "" || !isJsonObject(json)) return undefined;
    // Protobuf-ES stores fields as properties under their local names.
    const message = create(desc) as Message & Record<string, unknown>;
    let seen = 0;
    for (const key of Object.keys(json)) {
      const value = json[key];
      const field = inBody.get(key);
      if (field === undefined || typeof value !== "string" || !value.isWellFormed()) return undefined;
      // The body has the same field under both of its names.
      if ((seen & field.flag) !== 0) return undefined;
      seen |= field.flag;
      message[field.localName] = value;
    }
    for (const { fieldPath, localName } of inPath) message[localName] = captures.get(fieldPath) ?? "";
    return message;
  };
}

/** Each field is one bit of a 32-bit integer. */
const flagsMax = 31;

/**
 * The fields that a body may set, under both of their names. Fields set by the path are left out.
 */
function bodyFieldsOf({ method: { input }, variables }: Binding) {
  const bound = new Set(variables.map(({ fields: [field] }) => field));
  const fields = new Map<string, { readonly localName: string; readonly flag: number }>();
  for (const [name, field] of fieldsByName(input)) {
    if (bound.has(field) || !isPlainString(field)) continue;
    fields.set(name, { localName: field.localName, flag: 1 << input.fields.indexOf(field) });
  }
  return fields;
}

/**
 * True if every field of the message is one string, or a message that may be absent. Where those
 * are, its JSON can be read and written without a walk over the descriptor.
 */
function isFlat(desc: DescMessage): boolean {
  if (!hasPlainJson(desc) || isHttpBody(desc)) return false;
  return desc.fields.every((field) => isPlainString(field) || isOptionalMessage(field));
}

function isOptionalMessage({ fieldKind, oneof, presence }: DescField): boolean {
  return fieldKind === "message" && oneof === undefined && presence !== required;
}

const { IMPLICIT: implicit, LEGACY_REQUIRED: required } = FeatureSet_FieldPresence;

/**
 * True for a singular string in no oneof, neither required nor with a default. The name must not be
 * `__proto__`, which is no ordinary key of an object.
 */
function isPlainString(field: DescField): boolean {
  return (
    field.fieldKind === "scalar" &&
    field.scalar === ScalarType.STRING &&
    field.oneof === undefined &&
    field.presence !== required &&
    field.getDefaultValue() === undefined &&
    !`${field.name} ${field.jsonName}`.includes("__proto__")
  );
}
