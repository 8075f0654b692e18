import type { DescField, DescMessage, JsonObject, Message } from "@bufbuild/protobuf";
import { create, ScalarType } from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import { fieldsByName, hasPlainJson, isHttpBody } from "./json-form.ts";

/** The way between a message whose every field is one string and its ProtoJSON, without a walk over its descriptor. */
export interface FlatMessage {
  /** The message of JSON that has passed its check; null is absent. */
  read(json: JsonObject): Message;
  /** As `toJson` with `alwaysEmitImplicit`; undefined where the message is another, or a value is no string. */
  write(message: Message): JsonObject | undefined;
}

/**
 * Compiles it; undefined where the message has any other field, or JSON of its own. Requests and answers that hold
 * nothing but strings are the common ones, and Protobuf-ES spends several times as long on them as is needed.
 */
export function flatMessageOf(desc: DescMessage): FlatMessage | undefined {
  if (!hasPlainJson(desc) || isHttpBody(desc) || !desc.fields.every(isPlainString)) return undefined;
  const localNames = new Map<string, string>();
  for (const [name, field] of fieldsByName(desc)) localNames.set(name, field.localName);
  const fields = desc.fields.toSorted((a, b) => a.number - b.number);
  return {
    read(json) {
      const init: Record<string, unknown> = {};
      for (const key of Object.keys(json)) {
        const localName = localNames.get(key);
        if (localName === undefined) throw new Error(`${key} is no field of ${desc.typeName}`);
        init[localName] = json[key];
      }
      return create(desc, init);
    },
    write(message) {
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
    },
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
