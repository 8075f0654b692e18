import {
  type DescField,
  type DescMessage,
  type JsonObject,
  type Message,
  ScalarType,
} from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import { hasPlainJson, isHttpBody } from "./json-form.ts";

/**
 * True if every field of the message is one string, so that its JSON can be read and written
 * without a walk over the descriptor.
 */
export function isFlat(desc: DescMessage): boolean {
  return hasPlainJson(desc) && !isHttpBody(desc) && desc.fields.every(isPlainString);
}

/**
 * Like `toJson` with `alwaysEmitImplicit`. Undefined if the message is of another type or a value
 * is not a string.
 */
export type FlatWriter = (message: Message) => JsonObject | undefined;

/**
 * Compiles a writer for a flat message; undefined if the message is not flat. Most responses hold
 * only strings, and Protobuf-ES takes several times as long to write them.
 */
export function flatWriterOf(desc: DescMessage): FlatWriter | undefined {
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
