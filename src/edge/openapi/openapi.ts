import type { DescField, DescMethod, DescService, JsonObject } from "@bufbuild/protobuf";
import { type Binding, bindingsOf, nameOfBinding } from "../transcode/binding.ts";
import { isHttpBody } from "../transcode/json-form.ts";
import {
  type Direction,
  fieldSchema,
  fieldsSchema,
  messageSchema,
  type ProtoFacts,
  type SchemaBook,
} from "./json-schema.ts";
import { openApiPath, parametersOf } from "./parameters.ts";

/** What descriptors can't say of a method. */
export interface MethodFacts {
  /** Parameters beside those of the path and the query. */
  readonly parameters: readonly JsonObject[];
  readonly successHeaders: JsonObject;
  /** Every other answer, by HTTP status. */
  readonly refusals: JsonObject;
  readonly security: readonly JsonObject[];
}

export interface OpenApiOptions extends ProtoFacts {
  readonly services: readonly DescService[];
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly serverUrl: string;
  /** By the method's full name, as in `keyrun.v1.RunService.RunApp`: one for each method with an HTTP rule. */
  readonly methods: Readonly<Record<string, MethodFacts>>;
  /** `headers`, `schemas` and `securitySchemes` that the facts refer to. */
  readonly components: { readonly [section: string]: JsonObject };
}

/**
 * The OpenAPI 3.1 document of every `google.api.http` rule on these services. It is read from the descriptors that
 * the edge routes by, so it can't disagree with it. Throws an Error that names the rule for what OpenAPI can't say
 * (a variable over several segments, a method of any name), and for a method without facts.
 */
export function createOpenApi(options: OpenApiOptions): JsonObject {
  const book: SchemaBook = { words: options.words, fields: options.fields, components: {} };
  const paths: Record<string, JsonObject> = {};
  const ids = new Set<string>();
  const bindings = options.services.flatMap(bindingsOf);
  for (const binding of bindings) {
    const path = openApiPath(binding);
    const key = operationKey(binding);
    const operation = operationOf(binding, { options, book, id: operationId(binding.method, ids) });
    paths[path] = { ...paths[path], [key]: operation };
  }
  const { schemas: given, ...components } = options.components;
  return {
    openapi: "3.1.0",
    info: { ...options.info },
    servers: [{ url: options.serverUrl }],
    tags: [...new Set(bindings.map(({ method }) => method.parent))].map((service) => ({
      name: service.name,
      description: options.words[service.typeName] ?? "",
    })),
    paths,
    components: { ...components, schemas: { ...given, ...book.components } },
  };
}

const operationKeys = new Set(["get", "put", "post", "delete", "options", "head", "patch", "trace"]);

function operationKey(binding: Binding): string {
  const key = binding.httpMethod.toLowerCase();
  if (operationKeys.has(key)) return key;
  throw new Error(`OpenAPI 3.1 has no word for the method of ${nameOfBinding(binding)}.`);
}

/** `RunService_RunApp`, and with a number where a method has further rules. */
function operationId(method: DescMethod, taken: Set<string>): string {
  const name = `${method.parent.name}_${method.name}`;
  let id = name;
  for (let count = 2; taken.has(id); count++) id = `${name}_${count}`;
  taken.add(id);
  return id;
}

interface OperationContext {
  readonly options: OpenApiOptions;
  readonly book: SchemaBook;
  readonly id: string;
}

function operationOf(binding: Binding, { options, book, id }: OperationContext): JsonObject {
  const { method } = binding;
  const fullName = `${method.parent.typeName}.${method.name}`;
  const facts = options.methods[fullName];
  if (!facts) throw new Error(`${fullName} has an HTTP rule, and the OpenAPI document no facts about it.`);
  const words = options.words[fullName] ?? "";
  const body = bodyOf(binding, book);
  return {
    operationId: id,
    tags: [method.parent.name],
    summary: words.split(/(?<=\.) /)[0] ?? "",
    description: words,
    security: [...facts.security],
    parameters: [...parametersOf(binding, book), ...facts.parameters],
    ...(body && { requestBody: body }),
    responses: { 200: successOf(binding, book, facts.successHeaders), ...facts.refusals },
  };
}

function bodyOf({ method, body, variables }: Binding, book: SchemaBook): JsonObject | undefined {
  switch (body.kind) {
    case "none":
      return undefined;
    case "field":
      return { required: true, content: fieldContent(book, body.field, "request") };
    case "whole": {
      if (isHttpBody(method.input)) return { required: true, content: anyBytes };
      const bound = new Set(variables.flatMap(({ fields }) => (fields.length === 1 ? fields : [])));
      const schema = fieldsSchema(book, method.input, { direction: "request", without: bound });
      return { required: "required" in schema, content: { "application/json": { schema } } };
    }
  }
}

function successOf({ method, responseBody }: Binding, book: SchemaBook, headers: JsonObject): JsonObject {
  const description = book.words[method.output.typeName] ?? "The answer.";
  if (responseBody) return { description, headers, content: fieldContent(book, responseBody, "response") };
  if (isHttpBody(method.output)) return { description, headers, content: anyBytes };
  const schema = messageSchema(book, method.output, "response");
  return { description, headers, content: { "application/json": { schema } } };
}

function fieldContent(book: SchemaBook, field: DescField, direction: Direction): JsonObject {
  if (field.fieldKind === "message" && isHttpBody(field.message)) return anyBytes;
  return { "application/json": { schema: fieldSchema(book, field, direction) } };
}

/** `google.api.HttpBody` is whatever its sender says it is. */
const anyBytes: JsonObject = { "*/*": {} };
