import type { DescMessage, DescService, JsonObject } from "@bufbuild/protobuf";
import { type Binding, bindingsOf, isStreamed } from "#transcode/binding.ts";
import type { StreamType } from "#transcode/encode.ts";
import {
  fieldSchema,
  fieldsSchema,
  messageSchema,
  type ProtoFacts,
  type SchemaContext,
} from "./json-schema.ts";
import { openApiPath, parametersOf } from "./parameters.ts";

/** Facts about a method that descriptors can't hold. */
export interface MethodFacts {
  /** Parameters other than those of the path and the query. */
  readonly parameters: readonly JsonObject[];
  readonly successHeaders: JsonObject;
  /** The answer 202 of a method whose work may go on. */
  readonly accepted?: {
    readonly words: string;
    readonly headers: JsonObject;
    readonly message: DescMessage;
  };
  /** Every other response, by HTTP status. */
  readonly refusals: JsonObject;
  readonly security: readonly JsonObject[];
  /**
   * For a method that streams: the schema of what is told in the stream if it breaks off, an object
   * with the key `error`.
   */
  readonly fault?: JsonObject;
}

export interface OpenApiOptions extends ProtoFacts {
  readonly services: readonly DescService[];
  readonly info: {
    readonly title: string;
    readonly version: string;
    readonly description: string;
    readonly contact?: { readonly name: string };
    readonly license?: { readonly name: string; readonly identifier: string };
  };
  readonly serverUrl: string;
  /**
   * By the method's full name, such as `keyrun.v1.RunService.RunApp`. Every method with an HTTP
   * rule needs an entry.
   */
  readonly methods: Readonly<Record<string, MethodFacts>>;
  /** The `headers`, `schemas` and `securitySchemes` that the facts refer to. */
  readonly components: { readonly [section: string]: JsonObject };
}

/**
 * Creates the OpenAPI 3.1 document of every `google.api.http` rule of these services. It reads the
 * descriptors that the REST handler routes by, so the two can't disagree. It knows the kinds of rules
 * and fields that Keyrun has: a body that is the whole request, or none. Throws an Error for a path
 * that OpenAPI can't express, for a field of another kind, and for a method without facts.
 */
export function createOpenApi(options: OpenApiOptions): JsonObject {
  const schemas: SchemaContext = { words: options.words, fields: options.fields, components: {} };
  const paths: Record<string, JsonObject> = {};
  const bindings = options.services.flatMap(bindingsOf);
  for (const binding of bindings) {
    const path = openApiPath(binding);
    paths[path] = {
      ...paths[path],
      [binding.httpMethod.toLowerCase()]: operationOf(binding, { options, schemas }),
    };
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
    components: { ...components, schemas: { ...given, ...schemas.components } },
  };
}

interface OperationContext {
  readonly options: OpenApiOptions;
  readonly schemas: SchemaContext;
}

function operationOf(binding: Binding, { options, schemas }: OperationContext): JsonObject {
  const { method } = binding;
  const fullName = `${method.parent.typeName}.${method.name}`;
  const facts = options.methods[fullName];
  if (!facts) throw new Error(`${fullName} has an HTTP rule, and the OpenAPI document no facts about it.`);
  if (binding.body.kind === "field") throw new Error(`The body of ${fullName} must be its whole request.`);
  const words = options.words[fullName] ?? "";
  const body = bodyOf(binding, schemas);
  return {
    operationId: `${method.parent.name}_${method.name}`,
    tags: [method.parent.name],
    summary: words.split(/(?<=\.) /)[0] ?? "",
    description: words,
    security: [...facts.security],
    parameters: [...parametersOf(binding, schemas), ...facts.parameters],
    ...(body && { requestBody: body }),
    responses: {
      200: successOf(binding, schemas, facts),
      ...(facts.accepted && { 202: acceptedOf(schemas, facts.accepted) }),
      ...facts.refusals,
    },
  };
}

function bodyOf({ method, body, variables }: Binding, schemas: SchemaContext): JsonObject | undefined {
  if (body.kind === "none") return undefined;
  const without = new Set(variables.flatMap(({ fields }) => fields));
  const schema = fieldsSchema(schemas, method.input, { direction: "request", without });
  return {
    required: "required" in schema || "minProperties" in schema,
    content: { "application/json": { schema } },
  };
}

function successOf(
  binding: Binding,
  schemas: SchemaContext,
  { successHeaders: headers, fault }: MethodFacts,
): JsonObject {
  const { method, responseBody } = binding;
  const description = schemas.words[method.output.typeName] ?? "The answer.";
  if (isStreamed(method)) {
    const about = `${description} ${streamWords}`;
    return { description: about, headers, content: streamContent(binding, schemas, fault ?? {}) };
  }
  const schema = responseBody
    ? fieldSchema(schemas, responseBody, "response")
    : messageSchema(schemas, method.output, "response");
  return { description, headers, content: { "application/json": { schema } } };
}

function acceptedOf(
  schemas: SchemaContext,
  { words, headers, message }: NonNullable<MethodFacts["accepted"]>,
): JsonObject {
  const schema = messageSchema(schemas, message, "response");
  return { description: words, headers, content: { "application/json": { schema } } };
}

const streamWords =
  "The answer is a stream of messages, as server-sent events unless `Accept` prefers lines of JSON " +
  "(`application/x-ndjson`, `application/ndjson` or `application/jsonl`). " +
  "The end is told in the stream, as is what goes wrong after its begin: a stream without either was cut off.";

/**
 * OpenAPI 3.1 has no word for the items of a stream. So the schema is that of the data of one
 * event, or of one line.
 */
function streamContent({ method }: Binding, schemas: SchemaContext, fault: JsonObject): JsonObject {
  const message = messageSchema(schemas, method.output, "response");
  const ofStream = (words: string, schema: JsonObject) => ({ type: "object", description: words, ...schema });
  const only = (key: string) => ({
    ...{ properties: { [key]: { type: "object", maxProperties: 0 } }, required: [key] },
    additionalProperties: false,
  });
  const event = ofStream("Of the event `end`, the last.", { maxProperties: 0 });
  const line = ofStream("The last line.", only("end"));
  const ping = ofStream("Keeps the connection alive in a silence. Skip it.", only("ping"));
  const lines = {
    schema: {
      description: "One line: a message, a sign of life, or the last, which says how the stream ended.",
      anyOf: [message, line, ping, fault],
    },
  };
  return {
    "text/event-stream": {
      schema: {
        description:
          "The data of one event. A message has no event name, the last one is named `end` or `error`. Comments keep the connection alive.",
        anyOf: [message, event, fault],
      },
    },
    "application/x-ndjson": lines,
    "application/ndjson": lines,
    "application/jsonl": lines,
  } satisfies Record<StreamType, JsonObject>;
}
