import type { DescField, DescMessage, JsonObject, Message } from "@bufbuild/protobuf";
import { ScalarType } from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import { hasPlainJson, isHttpBody } from "./json-form.ts";

/** True where every field of the message is one string, so that its JSON needs no walk over its descriptor. */
export function isFlat(desc: DescMessage): boolean {
  return hasPlainJson(desc) && !isHttpBody(desc) && desc.fields.every(isPlainString);
}

/** As `toJson` with `alwaysEmitImplicit`; undefined where the message is another, or a value is no string. */
export type FlatWriter = (message: Message) => JsonObject | undefined;

/**
 * Compiles a writer of a flat message; undefined where it is not flat. Answers that hold nothing but strings are the
 * common ones, and Protobuf-ES spends several times as long on them as is needed.
 */
export function flatWriterOf(desc: DescMessage): FlatWriter | undefined {
  if (!isFlat(desc)) return undefined;
  const fields = desc.fields.toSorted((a, b) => a.number - b.number);
  return (message) => {
    if (message.$typeName !== desc.typeName) return undefined;
    // A message's fields are its properties, under their local names.
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

/** Singular, in no oneof, neither required nor with a default of its own, and of a name that is an ordinary key. */
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
