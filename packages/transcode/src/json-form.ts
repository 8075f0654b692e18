// Which JSON a field or a message has: one plain value, an object of its fields, or anything.

import type { DescField, DescMessage, JsonObject, JsonValue } from "@bufbuild/protobuf";

/** Well-known types whose JSON is one string, so that a path or a query can hold it. */
const scalarJsonTypes = new Set([
  "google.protobuf.Timestamp",
  "google.protobuf.Duration",
  "google.protobuf.FieldMask",
]);

/** Well-known types with a special JSON form: an object, an array or any value. */
const freeJsonTypes = new Set([
  "google.protobuf.Any",
  "google.protobuf.Struct",
  "google.protobuf.Value",
  "google.protobuf.ListValue",
]);

const wrapperName = /^google\.protobuf\.(Double|Float|Int64|UInt64|Int32|UInt32|Bool|String|Bytes)Value$/;

/**
 * True for the types of `google/protobuf/wrappers.proto`. Their JSON is the JSON of their only
 * field.
 */
export function isWrapper(message: DescMessage): boolean {
  return wrapperName.test(message.typeName);
}

/** True for a singular message field whose JSON is an object of its fields. */
export function isPlainMessage(field: DescField): field is DescField & { fieldKind: "message" } {
  return field.fieldKind === "message" && hasPlainJson(field.message);
}

/** True where a message's JSON is an object of its fields. */
export function hasPlainJson(message: DescMessage): boolean {
  return !scalarJsonTypes.has(message.typeName) && !isFreeJson(message) && !isWrapper(message);
}

/** True where a message's JSON may be an object of any keys. */
export function isFreeJson(message: DescMessage): boolean {
  return freeJsonTypes.has(message.typeName);
}

/**
 * True if the JSON of the value (with `orList`, of each item) is one plain value: a scalar, an
 * enum, or a well-known type written as one.
 */
export function isJsonScalar(field: DescField, { orList = false } = {}): boolean {
  if (field.fieldKind === "map") return false;
  if (field.fieldKind === "list" && !orList) return false;
  if (field.message === undefined) return true;
  return scalarJsonTypes.has(field.message.typeName) || isWrapper(field.message);
}

/** True for `google.api.HttpBody`, which holds the raw bytes of a body. */
export function isHttpBody(message: DescMessage | undefined): boolean {
  return message?.typeName === "google.api.HttpBody";
}

/**
 * The only field of a message whose JSON can have many values; undefined where more can, or none.
 */
export function fieldOfMany({ fields }: DescMessage): DescField | undefined {
  const [field, another] = fields.filter((each) => !isJsonScalar(each));
  return another === undefined ? field : undefined;
}

export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * The fields of a message by each key that JSON may use: the JSON name and the proto name. Cached
 * for as long as the descriptor lives.
 */
export function fieldsByName(message: DescMessage): ReadonlyMap<string, DescField> {
  let fields = known.get(message);
  if (fields === undefined) {
    fields = new Map();
    for (const field of message.fields) fields.set(field.name, field).set(field.jsonName, field);
    known.set(message, fields);
  }
  return fields;
}

const known = new WeakMap<DescMessage, Map<string, DescField>>();
