import type { DescField, DescMessage, JsonObject } from "@bufbuild/protobuf";
import { type Binding, nameOfBinding } from "#transcode/binding.ts";
import { isJsonScalar, isPlainMessage } from "#transcode/json-form.ts";
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
  const path = binding.variables.map(({ fieldPath, fields }) => {
    const leaf = fields.at(-1) ?? fields[0];
    return { name: fieldPath, in: "path", required: true, ...described(leaf, schemas) };
  });
  if (binding.body.kind === "whole") return path;
  const taken = new Set(binding.variables.map(({ fieldPath }) => fieldPath));
  if (binding.body.kind === "field") taken.add(binding.body.field.name);
  return [...path, ...queryOf(binding.method.input, { schemas, taken, above: [], path: "", name: "" })];
}

interface QueryContext {
  readonly schemas: SchemaContext;
  /** Paths of fields that the path or the body sets. */
  readonly taken: ReadonlySet<string>;
  /**
   * The messages around this one. A message that contains itself is left out below itself, because
   * its parameters would never end.
   */
  readonly above: readonly DescMessage[];
  /** The prefix of the fields in proto names; `name` is the same in JSON names. */
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
    // A required field of an optional message is not a required parameter.
    const required = context.above.length === 0 && isRequired(context.schemas, field, "request");
    return [{ name, in: "query", required, ...described(field, context.schemas) }];
  });
}

/** Tools show the description of a parameter, not that of its schema. */
function described(field: DescField, schemas: SchemaContext): JsonObject {
  const { description, ...schema } = fieldSchema(schemas, field, "request");
  return description === undefined ? { schema } : { description, schema };
}
