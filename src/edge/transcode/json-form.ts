import type { DescField, DescMessage } from "@bufbuild/protobuf";

/** Well-known types whose JSON is one string, number or boolean, so that a path or a query can hold it. */
const scalarJsonTypes = new Set([
  "google.protobuf.Timestamp",
  "google.protobuf.Duration",
  "google.protobuf.FieldMask",
]);

/** Well-known types with a JSON form of their own that is an object, an array or anything. */
const freeJsonTypes = new Set([
  "google.protobuf.Any",
  "google.protobuf.Struct",
  "google.protobuf.Value",
  "google.protobuf.ListValue",
]);

const wrapperName = /^google\.protobuf\.(Double|Float|Int64|UInt64|Int32|UInt32|Bool|String|Bytes)Value$/;

/** True for the wrappers of `google/protobuf/wrappers.proto`, whose JSON is that of their only field. */
export function isWrapper(message: DescMessage): boolean {
  return wrapperName.test(message.typeName);
}

/** True for a singular message field whose JSON is an object of its fields. */
export function isPlainMessage(field: DescField): field is DescField & { fieldKind: "message" } {
  return field.fieldKind === "message" && hasPlainJson(field.message);
}

/** True where a message's JSON is an object of its fields. */
export function hasPlainJson(message: DescMessage): boolean {
  return (
    !scalarJsonTypes.has(message.typeName) && !freeJsonTypes.has(message.typeName) && !isWrapper(message)
  );
}

/**
 * True where the value (of a list: each item) is one plain value in JSON: a scalar, an enum, or such a
 * message.
 */
export function isJsonScalar(field: DescField, { orList = false } = {}): boolean {
  if (field.fieldKind === "map") return false;
  if (field.fieldKind === "list" && !orList) return false;
  if (field.message === undefined) return true;
  return scalarJsonTypes.has(field.message.typeName) || isWrapper(field.message);
}

/** True for `google.api.HttpBody`, which stands for the bytes of a body as they are. */
export function isHttpBody(message: DescMessage | undefined): boolean {
  return message?.typeName === "google.api.HttpBody";
}

/**
 * The keys under which a JSON object may hold a message's fields: their JSON names and their proto names.
 * Kept for as long as the descriptor lives.
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
