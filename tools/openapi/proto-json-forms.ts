import { type DescMessage, type JsonObject, ScalarType } from "@bufbuild/protobuf";

/**
 * Returns the JSON Schema of a scalar in ProtoJSON. Source: the JSON mapping of proto3
 * (protobuf.dev/programming-guides/json).
 */
export function scalarSchema(scalar: ScalarType): JsonObject {
  switch (scalar) {
    case ScalarType.STRING:
      return { type: "string" };
    case ScalarType.BYTES:
      return { type: "string", contentEncoding: "base64" };
    case ScalarType.BOOL:
      return { type: "boolean" };
    case ScalarType.INT32:
    case ScalarType.SINT32:
    case ScalarType.SFIXED32:
      return { type: "integer", format: "int32", minimum: -(2 ** 31), maximum: 2 ** 31 - 1 };
    case ScalarType.UINT32:
    case ScalarType.FIXED32:
      return { type: "integer", format: "uint32", minimum: 0, maximum: 2 ** 32 - 1 };
    case ScalarType.INT64:
    case ScalarType.SINT64:
    case ScalarType.SFIXED64:
      return { type: "string", format: "int64", pattern: "^-?[0-9]{1,19}$" };
    case ScalarType.UINT64:
    case ScalarType.FIXED64:
      return { type: "string", format: "uint64", pattern: "^[0-9]{1,20}$" };
    case ScalarType.FLOAT:
    case ScalarType.DOUBLE: {
      const format = scalar === ScalarType.FLOAT ? "float" : "double";
      const notFinite = { type: "string", enum: ["NaN", "Infinity", "-Infinity"] };
      return { oneOf: [{ type: "number", format }, notFinite] };
    }
  }
}

/** Returns the schema of a map's keys: JSON strings that hold the key's ProtoJSON form. */
export function mapKeySchema(key: ScalarType): JsonObject {
  if (key === ScalarType.STRING) return {};
  if (key === ScalarType.BOOL) return { propertyNames: { enum: ["true", "false"] } };
  return { propertyNames: { pattern: "^-?[0-9]{1,20}$" } };
}

/**
 * Returns the schema of a well-known type with a special JSON form; undefined for every other
 * message.
 */
export function wellKnownSchema({ typeName }: DescMessage): JsonObject | undefined {
  const form = wellKnownForms.get(typeName);
  return form && { ...form };
}

const wellKnownForms: ReadonlyMap<string, JsonObject> = new Map<string, JsonObject>([
  ["google.protobuf.Timestamp", { type: "string", format: "date-time" }],
  ["google.protobuf.Duration", { type: "string", pattern: "^-?[0-9]{1,12}(\\.[0-9]{1,9})?s$" }],
  ["google.protobuf.FieldMask", { type: "string", pattern: "^([A-Za-z0-9.]+(,[A-Za-z0-9.]+)*)?$" }],
  [
    "google.protobuf.Any",
    { type: "object", properties: { "@type": { type: "string" } }, required: ["@type"] },
  ],
  ["google.protobuf.Struct", { type: "object" }],
  ["google.protobuf.ListValue", { type: "array" }],
  ["google.protobuf.Value", {}],
]);
