import type { DescField, JsonObject } from "@bufbuild/protobuf";
import { type Binding, nameOfBinding } from "#transcode/binding.ts";
import { fieldSchema, isRequired, type SchemaContext } from "./json-schema.ts";

/**
 * Returns the path in OpenAPI's form: `{name=*}` becomes `{name}`. Throws an Error if a variable is
 * not exactly one segment.
 */
export function openApiPath(binding: Binding): string {
  const path = binding.template.source.replace(/\{([^=}]*)=\*\}/g, "{$1}");
  // OpenAPI has no form for a `*` outside a variable or for a variable with another pattern.
  if (!/\*|\{[^}]*=/.test(path)) return path;
  throw new Error(
    `OpenAPI 3.1 can't say the path of ${nameOfBinding(binding)}: each variable must be one segment.`,
  );
}

/**
 * Returns the parameters of the path, then the fields that the query may set. A binding whose body
 * is the whole message has no query.
 */
export function parametersOf(binding: Binding, schemas: SchemaContext): JsonObject[] {
  const inPath = binding.variables.map(({ fieldPath, fields }) => ({
    name: fieldPath,
    in: "path",
    required: true,
    ...described(fields[0], schemas),
  }));
  if (binding.body.kind === "whole") return inPath;
  const taken = new Set(binding.variables.map(({ fieldPath }) => fieldPath));
  const inQuery = binding.method.input.fields.filter(({ name }) => !taken.has(name));
  return [
    ...inPath,
    ...inQuery.map((field) => ({
      name: field.jsonName,
      in: "query",
      required: isRequired(schemas, field, "request"),
      ...described(field, schemas),
    })),
  ];
}

/** Tools show the description of a parameter, not that of its schema. */
function described(field: DescField, schemas: SchemaContext): JsonObject {
  const { description, ...schema } = fieldSchema(schemas, field, "request");
  return description === undefined ? { schema } : { description, schema };
}
