import type { DescEnum, DescField, DescMessage, DescOneof, JsonObject, JsonValue } from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import { isWrapper } from "../transcode/json-form.ts";
import { mapKeySchema, scalarSchema, wellKnownSchema } from "./proto-json-forms.ts";

/** What the generated descriptors don't hold, by full name (`keyrun.v1.RunAppRequest.text`). */
export interface ProtoFacts {
  /** The comments of the proto files, each on one line. Of a field they open as AIP-203 has it: "Required.", … */
  readonly words: Readonly<Record<string, string>>;
  /** Bounds of fields, as JSON Schema: `{ maxLength: 128 }`. */
  readonly fields: Readonly<Record<string, JsonObject>>;
}

/** Where schemas come from, and where those go that others refer to. */
export interface SchemaBook extends ProtoFacts {
  /** Filled with every schema that is referred to, under its name in `#/components/schemas`. */
  readonly components: Record<string, JsonObject>;
}

/** A request's objects are closed, and say what is required; an answer's may grow, and say what is always there. */
export type Direction = "request" | "response";

/**
 * The JSON Schema (2020-12, as in OpenAPI 3.1) of a message as ProtoJSON writes it: JSON names, enums by name, 64-bit
 * integers as strings. A reader of ProtoJSON takes other spellings too; a schema says the one to use. It is a
 * reference into the book's components, or the form itself for a well-known type.
 */
export function messageSchema(book: SchemaBook, message: DescMessage, direction: Direction): JsonObject {
  const known = wellKnownSchema(message);
  if (known) return known;
  const wrapped = isWrapper(message) ? message.fields[0] : undefined;
  if (wrapped) return fieldSchema(book, wrapped, direction);
  // No name of a proto has a hyphen.
  const name = direction === "request" ? `${message.typeName}-input` : message.typeName;
  return refer(book, name, () => fieldsSchema(book, message, { direction }));
}

/** The schema of a message in place, without some of its fields. */
export function fieldsSchema(
  book: SchemaBook,
  message: DescMessage,
  { direction, without }: { direction: Direction; without?: ReadonlySet<DescField> },
): JsonObject {
  const fields = message.fields.filter((field) => !without?.has(field));
  const required = fields
    .filter((field) => isRequired(book, field, direction))
    .map(({ jsonName }) => jsonName);
  const choices = message.oneofs.map((oneof) => oneofSchema(book, oneof));
  return {
    type: "object",
    ...description(book, message.typeName),
    properties: Object.fromEntries(
      fields.map((field) => [field.jsonName, fieldSchema(book, field, direction)]),
    ),
    ...(required.length > 0 && { required }),
    ...(choices.length > 0 && { allOf: choices }),
    ...(direction === "request" && { additionalProperties: false }),
  };
}

/** The schema of a field's value, with what the facts say of the field. */
export function fieldSchema(book: SchemaBook, field: DescField, direction: Direction): JsonObject {
  const name = fullNameOf(field);
  const outputOnly = book.words[name]?.startsWith("Output only.") ?? false;
  return {
    ...fieldForm(book, field, direction),
    ...book.fields[name],
    ...description(book, name),
    ...examples(book, name),
    ...(direction === "request" && outputOnly && { readOnly: true }),
  };
}

/** Of a request: the field's comment says "Required.". Of an answer: the field is sent even at its default. */
export function isRequired({ words }: ProtoFacts, field: DescField, direction: Direction): boolean {
  if (direction === "response") return field.presence === FeatureSet_FieldPresence.IMPLICIT;
  return words[fullNameOf(field)]?.startsWith("Required.") ?? false;
}

function fieldForm(book: SchemaBook, field: DescField, direction: Direction): JsonObject {
  const value = valueForm(book, field, direction);
  if (field.fieldKind === "list") return { type: "array", items: value };
  if (field.fieldKind !== "map") return value;
  return { type: "object", ...mapKeySchema(field.mapKey), additionalProperties: value };
}

/** Of a singular field the value, of a list or map each of its values. */
function valueForm(book: SchemaBook, field: DescField, direction: Direction): JsonObject {
  if (field.message) return messageSchema(book, field.message, direction);
  return field.enum ? enumSchema(book, field.enum) : scalarSchema(field.scalar);
}

function enumSchema(book: SchemaBook, { typeName, values }: DescEnum): JsonObject {
  if (typeName === "google.protobuf.NullValue") return { type: "null" };
  const names = values.map(({ name }) => name);
  return refer(book, typeName, () => ({ type: "string", ...description(book, typeName), enum: names }));
}

/** At most one member, or exactly one where the oneof's comment says "Required.". */
function oneofSchema({ words }: ProtoFacts, oneof: DescOneof): JsonObject {
  const members: JsonObject[] = oneof.fields.map(({ jsonName }) => ({ required: [jsonName] }));
  const must = words[`${oneof.parent.typeName}.${oneof.name}`]?.startsWith("Required.") ?? false;
  return { oneOf: must ? members : [...members, { not: { anyOf: members } }] };
}

/** The name is taken before the schema is made, so that a message within itself ends. */
function refer({ components }: SchemaBook, name: string, schema: () => JsonObject): JsonObject {
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

/** AIP-192: a comment may end in `Example: "echo".` */
function examples({ words }: ProtoFacts, fullName: string): JsonObject {
  const [, example] = /Example: (".*"|\d+(?:\.\d+)?)\.$/.exec(words[fullName] ?? "") ?? [];
  if (example === undefined) return {};
  const value: JsonValue = JSON.parse(example);
  return { examples: [value] };
}

function fullNameOf(field: DescField): string {
  return `${field.parent.typeName}.${field.name}`;
}
