import {
  type DescEnum,
  type DescField,
  type DescMessage,
  type DescOneof,
  type JsonObject,
  type JsonValue,
  ScalarType,
} from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";

/** Facts that the generated descriptors lack, by full name (`keyrun.v1.RunAppRequest.text`). */
export interface ProtoFacts {
  /**
   * The comments of the proto files, each on one line. A field's comment opens with "Required.",
   * "Optional." or "Output only." (AIP-203).
   */
  readonly words: Readonly<Record<string, string>>;
  /** Bounds of fields and messages, as JSON Schema: `{ maxLength: 128 }`. */
  readonly fields: Readonly<Record<string, JsonObject>>;
}

/** What schemas are made from, and the place for those that others refer to. */
export interface SchemaContext extends ProtoFacts {
  /**
   * Every schema that is referred to, under its name in `#/components/schemas`. Filled while
   * schemas are made.
   */
  readonly components: Record<string, JsonObject>;
}

/**
 * A schema of a request allows no other fields and lists the required ones. A schema of a response
 * allows more fields later and lists those that are always sent.
 */
export type Direction = "request" | "response";

/**
 * Returns the JSON Schema (2020-12, as in OpenAPI 3.1) of a message in ProtoJSON: JSON names, enums
 * by name. ProtoJSON readers accept other spellings too; the schema shows the one to use. The result
 * is a reference to `schemas.components`, or the schema itself for a well-known type.
 */
export function messageSchema(
  schemas: SchemaContext,
  message: DescMessage,
  direction: Direction,
): JsonObject {
  const known = wellKnownForms.get(message.typeName);
  if (known) return { ...known };
  // A proto name never contains a hyphen, so this can't be another message's name.
  const name = direction === "request" ? `${message.typeName}-input` : message.typeName;
  return refer(schemas, name, () => fieldsSchema(schemas, message, { direction }));
}

/** Returns the schema of a message itself, not a reference, and without the fields in `without`. */
export function fieldsSchema(
  schemas: SchemaContext,
  message: DescMessage,
  { direction, without }: { direction: Direction; without?: ReadonlySet<DescField> },
): JsonObject {
  const fields = message.fields.filter((field) => !without?.has(field));
  const required = fields
    .filter((field) => isRequired(schemas, field, direction))
    .map(({ jsonName }) => jsonName);
  const choices = message.oneofs.map((oneof) => oneofSchema(schemas, oneof));
  return {
    type: "object",
    ...schemas.fields[message.typeName],
    ...description(schemas, message.typeName),
    properties: Object.fromEntries(
      fields.map((field) => [field.jsonName, fieldSchema(schemas, field, direction)]),
    ),
    ...(required.length > 0 && { required }),
    // One choice needs no `allOf`, which many tools read badly.
    ...(choices.length > 1 ? { allOf: choices } : choices[0]),
    ...(direction === "request" && { additionalProperties: false }),
  };
}

/** Returns the schema of a field's value with the facts about the field. */
export function fieldSchema(schemas: SchemaContext, field: DescField, direction: Direction): JsonObject {
  const name = fullNameOf(field);
  const outputOnly = schemas.words[name]?.startsWith("Output only.") ?? false;
  return {
    ...fieldForm(schemas, field, direction),
    ...schemas.fields[name],
    ...description(schemas, name),
    ...examples(schemas, name),
    ...(direction === "request" && outputOnly && { readOnly: true }),
  };
}

/**
 * For a request: true if the field's comment starts with "Required.". For a response: true if the
 * field is sent even if it has its default value.
 */
export function isRequired({ words }: ProtoFacts, field: DescField, direction: Direction): boolean {
  if (direction === "response") return field.presence === FeatureSet_FieldPresence.IMPLICIT;
  return words[fullNameOf(field)]?.startsWith("Required.") ?? false;
}

function fieldForm(schemas: SchemaContext, field: DescField, direction: Direction): JsonObject {
  const value = valueForm(schemas, field, direction);
  return field.fieldKind === "list" ? { type: "array", items: value } : value;
}

/** The schema of a singular field's value, or of each value of a list. */
function valueForm(schemas: SchemaContext, field: DescField, direction: Direction): JsonObject {
  if (field.message) return messageSchema(schemas, field.message, direction);
  if (field.enum) return enumSchema(schemas, field.enum);
  const form = scalarForms.get(field.scalar as ScalarType);
  if (form === undefined || field.fieldKind === "map")
    throw new Error(`${fullNameOf(field)} is of a kind that no REST method has had: give it a schema here.`);
  return { ...form };
}

/** The forms in ProtoJSON of the scalars and well-known types that the REST methods have. */
const scalarForms: ReadonlyMap<ScalarType, JsonObject> = new Map<ScalarType, JsonObject>([
  [ScalarType.STRING, { type: "string" }],
  [ScalarType.BOOL, { type: "boolean" }],
  [ScalarType.INT32, { type: "integer", format: "int32", minimum: -(2 ** 31), maximum: 2 ** 31 - 1 }],
]);
const wellKnownForms: ReadonlyMap<string, JsonObject> = new Map<string, JsonObject>([
  ["google.protobuf.Timestamp", { type: "string", format: "date-time" }],
  ["google.protobuf.Duration", { type: "string", pattern: "^-?[0-9]{1,12}(\\.[0-9]{1,9})?s$" }],
  ["google.protobuf.Struct", { type: "object", additionalProperties: true }],
  ["google.protobuf.Value", {}],
]);

function enumSchema(schemas: SchemaContext, { typeName, values }: DescEnum): JsonObject {
  const names = values.map(({ name }) => name);
  return refer(schemas, typeName, () => {
    return openList(schemas.words[typeName] ?? "", names);
  });
}

/**
 * One of these texts, or one that is added later. Clients that were made from a closed `enum` raise
 * at a new value, and generators read a choice of an enum and a string in many ways. All of them
 * make plain text of a plain string. Zalando's extension names the values for those that know it:
 * https://opensource.zalando.com/restful-api-guidelines/#112
 */
export function openList(words: string, values: readonly string[]): JsonObject {
  const known = values.map((value) => `\`${value}\``).join(", ");
  const more = `One of ${known}. More may be added: accept any text.`;
  return {
    type: "string",
    description: words === "" ? more : `${words} ${more}`,
    "x-extensible-enum": [...values],
  };
}

/** At most one member may be set; exactly one if the oneof's comment starts with "Required.". */
function oneofSchema({ words }: ProtoFacts, oneof: DescOneof): JsonObject {
  // Linters look for the property beside the word that it is required.
  const members: JsonObject[] = oneof.fields.map(({ jsonName }) => ({
    properties: { [jsonName]: {} },
    required: [jsonName],
  }));
  const must = words[`${oneof.parent.typeName}.${oneof.name}`]?.startsWith("Required.") ?? false;
  return { oneOf: must ? members : [...members, { not: { anyOf: members } }] };
}

/**
 * The name is stored before the schema is made, so that a message that contains itself does not
 * recurse for ever.
 */
function refer({ components }: SchemaContext, name: string, schema: () => JsonObject): JsonObject {
  if (!(name in components)) {
    components[name] = {};
    components[name] = schema();
  }
  return { $ref: `#/components/schemas/${name}` };
}

function description({ words }: ProtoFacts, fullName: string): JsonObject {
  const text = words[fullName];
  return text === undefined ? {} : { description: text };
}

/** AIP-192: a comment may end in `Example: "echo".`, a number or an object. */
function examples({ words }: ProtoFacts, fullName: string): JsonObject {
  const [, example] = /Example: (".*"|\{.*\}|\d+(?:\.\d+)?)\.$/.exec(words[fullName] ?? "") ?? [];
  if (example === undefined) return {};
  const value: JsonValue = JSON.parse(example);
  return { examples: [value] };
}

function fullNameOf(field: DescField): string {
  return `${field.parent.typeName}.${field.name}`;
}
