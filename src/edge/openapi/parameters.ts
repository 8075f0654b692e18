import type { DescField, DescMessage, JsonObject } from "@bufbuild/protobuf";
import { type Binding, nameOfBinding } from "../transcode/binding.ts";
import { isJsonScalar, isPlainMessage } from "../transcode/json-form.ts";
import { fieldSchema, isRequired, type SchemaBook } from "./json-schema.ts";

/** The path as OpenAPI writes it: `{name=*}` is `{name}`. Throws an Error where one segment is not one variable. */
export function openApiPath(binding: Binding): string {
  const path = binding.template.source.replace(/\{([^=}]*)=\*\}/g, "{$1}");
  // What is left of a star, or of a variable with a pattern, has no form in OpenAPI.
  if (!/\*|\{[^}]*=/.test(path)) return path;
  throw new Error(
    `OpenAPI 3.1 can't say the path of ${nameOfBinding(binding)}: each variable must be one segment.`,
  );
}

/** The variables of the path, then every field that may come by query: none where the body is the whole message. */
export function parametersOf(binding: Binding, book: SchemaBook): JsonObject[] {
  const path = binding.variables.map(({ fieldPath, fields }) => {
    const leaf = fields.at(-1) ?? fields[0];
    return { name: fieldPath, in: "path", required: true, ...described(leaf, book) };
  });
  if (binding.body.kind === "whole") return path;
  const taken = new Set(binding.variables.map(({ fieldPath }) => fieldPath));
  if (binding.body.kind === "field") taken.add(binding.body.field.name);
  return [...path, ...queryOf(binding.method.input, { book, taken, above: [], path: "", name: "" })];
}

interface QueryContext {
  readonly book: SchemaBook;
  /** Field paths that come by other ways. */
  readonly taken: ReadonlySet<string>;
  /** The messages around this one: a message within itself has no end, so its inner one is left out. */
  readonly above: readonly DescMessage[];
  /** The prefix of the fields, in proto names and in JSON names. */
  readonly path: string;
  readonly name: string;
}

function queryOf(message: DescMessage, context: QueryContext): JsonObject[] {
  const above = [...context.above, message];
  return message.fields.flatMap((field) => {
    const path = context.path + field.name;
    const name = context.name + field.jsonName;
    if (context.taken.has(path)) return [];
    if (isPlainMessage(field)) {
      if (above.includes(field.message)) return [];
      return queryOf(field.message, { ...context, above, path: `${path}.`, name: `${name}.` });
    }
    if (!isJsonScalar(field, { orList: true })) return [];
    // A required field of an optional message is not required of the query.
    const required = context.above.length === 0 && isRequired(context.book, field, "request");
    return [{ name, in: "query", required, ...described(field, context.book) }];
  });
}

/** Tools show a parameter's own description, not that of its schema. */
function described(field: DescField, book: SchemaBook): JsonObject {
  const { description, ...schema } = fieldSchema(book, field, "request");
  return description === undefined ? { schema } : { description, schema };
}
