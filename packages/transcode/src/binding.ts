// Reads the `google.api.http` rules of methods, and proves each against the descriptors: at
// start-up a rule in doubt is an Error that names it.

import {
  type DescField,
  type DescMessage,
  type DescMethod,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  type DescService,
  getOption,
  hasOption,
} from "@bufbuild/protobuf";
import { http } from "../gen/google/api/annotations_pb.ts";
import type { HttpRule } from "../gen/google/api/http_pb.ts";
import { isFreeJson, isHttpBody, isJsonScalar, isPlainMessage } from "./json-form.ts";
import { parseTemplate, type Template, type Variable } from "./template.ts";

/**
 * One HTTP rule of one method: which requests it matches and which field each part of them sets.
 */
export interface Binding {
  readonly method: DescMethodUnary | DescMethodServerStreaming;
  /** "GET", "POST", a custom method's name, or "*" for every method. */
  readonly httpMethod: string;
  readonly template: Template;
  /** The variables of the template, in its order, with the fields that they set. */
  readonly variables: readonly BoundVariable[];
  readonly body: BodyBinding;
  /** The only field sent, of each message of a stream too; undefined: the whole message is sent. */
  readonly responseBody: DescField | undefined;
}

interface BoundVariable extends Variable {
  /** The path of fields from the request message down to the one that gets the value. */
  readonly fields: readonly [DescField, ...DescField[]];
}

type BodyBinding =
  /** The request has no body. The query may set every field that the path does not. */
  | { readonly kind: "none" }
  /** The body is the whole message except what the path sets. A query is refused. */
  | { readonly kind: "whole" }
  /** The body is this field. The query may set the others. */
  | { readonly kind: "field"; readonly field: DescField };

/**
 * Returns the bindings of every annotated method, additional bindings included. A method without
 * the annotation has none. Throws an Error that names the rule and what is wrong with it.
 */
export function bindingsOf(service: DescService): Binding[] {
  return service.methods.flatMap((method) => {
    if (!hasOption(method, http)) return [];
    const rule = getOption(method, http);
    return [rule, ...rule.additionalBindings].map((each) => {
      if (each !== rule && each.additionalBindings.length > 0) {
        throw new Error(`${nameOfRule(method, each)} has additional bindings inside an additional binding.`);
      }
      return bind(method, each);
    });
  });
}

/**
 * True if the binding's body is a `google.api.HttpBody`: bytes of any type, passed on unchanged.
 */
export function hasRawBody({ method, body }: Pick<Binding, "method" | "body">): boolean {
  if (body.kind === "whole") return isHttpBody(method.input);
  return body.kind === "field" && body.field.fieldKind === "message" && isHttpBody(body.field.message);
}

/** True if the method answers with a stream of messages. */
export function isStreamed({ methodKind }: Binding["method"]): boolean {
  return methodKind === "server_streaming";
}

/** The name of a binding in error messages: "POST /v1/{name} (books.v1.Library.CreateBook)". */
export function nameOfBinding(binding: Binding): string {
  return `${binding.httpMethod} ${binding.template.source} (${nameOfMethod(binding.method)})`;
}

function bind(method: DescMethod, rule: HttpRule): Binding {
  const fail = (words: string) => new Error(`The rule ${nameOfRule(method, rule)} ${words}.`);
  if (!takesOneMessage(method)) {
    throw fail("is on a streaming method whose caller sends the stream: a request holds one message");
  }
  const { httpMethod, path } = patternOf(rule);
  if (!/^([A-Z][A-Z0-9-]*|\*)$/.test(httpMethod)) throw fail("has no method, or not one in upper case");
  let template: Template;
  try {
    template = parseTemplate(path);
  } catch (error) {
    throw fail(error instanceof Error ? error.message : String(error));
  }
  const body = bodyOf(method.input, rule.body);
  if (body === undefined)
    throw fail(`has the body "${rule.body}", which is no field of ${method.input.typeName}`);
  if (body.kind !== "none" && (httpMethod === "GET" || httpMethod === "HEAD")) {
    throw fail(`has a body, which ${httpMethod} must not have`);
  }
  const responseBody = method.output.fields.find((field) => field.name === rule.responseBody);
  if (rule.responseBody !== "" && responseBody === undefined) {
    throw fail(
      `has the response body "${rule.responseBody}", which is no field of ${method.output.typeName}`,
    );
  }
  const unstreamable = isStreamed(method) ? streamProblem({ method, httpMethod, responseBody }) : undefined;
  if (unstreamable !== undefined) throw fail(unstreamable);
  const variables = template.variables.map((variable) => {
    const fields = resolve(method.input, variable.fieldPath);
    if (typeof fields === "string") throw fail(fields);
    return { ...variable, fields };
  });
  const taken = overlap(variables, { method, body });
  if (taken !== undefined) throw fail(taken);
  return { method, httpMethod, template, variables, body, responseBody };
}

function takesOneMessage(method: DescMethod): method is Binding["method"] {
  return method.methodKind === "unary" || method.methodKind === "server_streaming";
}

/**
 * Returns what is wrong with a rule of a stream: each message must be JSON that can't be taken for
 * a line that the stream has of its own.
 */
function streamProblem(rule: Pick<Binding, "method" | "httpMethod" | "responseBody">): string | undefined {
  const { method, httpMethod, responseBody } = rule;
  if (httpMethod === "HEAD" || httpMethod === "*") return "streams an answer to HEAD, which has no body";
  const sent = responseBody ?? { fieldKind: "message", message: method.output };
  const message = sent.fieldKind === "message" ? sent.message : undefined;
  if (isHttpBody(message)) return "streams google.api.HttpBody: the messages of a stream are JSON";
  const key = ownLineKeys.find((name) => sent.fieldKind === "map" || mayHaveKey(message, name));
  return key && `streams JSON that may have the key "${key}", and would read as a line of the stream's own`;
}

/** The keys of the lines that a stream has of its own. A message must not have them. */
const ownLineKeys = ["error", "end", "ping"];

function mayHaveKey(message: DescMessage | undefined, key: string): boolean {
  if (message === undefined) return false;
  return isFreeJson(message) || message.fields.some(({ jsonName }) => jsonName === key);
}

function patternOf(rule: HttpRule): { httpMethod: string; path: string } {
  const { pattern } = rule;
  if (pattern.case === undefined) return { httpMethod: "", path: "" };
  if (pattern.case === "custom") return { httpMethod: pattern.value.kind, path: pattern.value.path };
  return { httpMethod: pattern.case.toUpperCase(), path: pattern.value };
}

function bodyOf(input: DescMessage, name: string): BodyBinding | undefined {
  if (name === "") return { kind: "none" };
  if (name === "*") return { kind: "whole" };
  const field = input.fields.find((each) => each.name === name);
  return field === undefined ? undefined : { kind: "field", field };
}

/** Returns the fields that a path names, or a text that says what is wrong with the path. */
function resolve(input: DescMessage, fieldPath: string): [DescField, ...DescField[]] | string {
  const fields: DescField[] = [];
  let message: DescMessage | undefined = input;
  for (const name of fieldPath.split(".")) {
    const field: DescField | undefined = message?.fields.find((each) => each.name === name);
    if (field === undefined) return `binds "${fieldPath}", which is no field of ${input.typeName}`;
    fields.push(field);
    message = isPlainMessage(field) ? field.message : undefined;
  }
  const [first, ...rest] = fields;
  const leaf = fields.at(-1);
  if (first === undefined || leaf === undefined || !isJsonScalar(leaf)) {
    return `binds "${fieldPath}", which is repeated, a map or a message: a path can hold one plain value`;
  }
  return [first, ...rest];
}

/**
 * Returns what is wrong if two parts of a request could set the same field or two members of one
 * oneof.
 */
function overlap(
  variables: readonly BoundVariable[],
  target: Pick<Binding, "method" | "body">,
): string | undefined {
  const { body } = target;
  for (const [index, { fieldPath, fields }] of variables.entries()) {
    const inBody = body.kind === "whole" || (body.kind === "field" && fields[0] === body.field);
    if (inBody && (hasRawBody(target) || (body.kind === "field" && fields.length === 1))) {
      return `binds "${fieldPath}" by the path and by the body`;
    }
    for (const other of variables.slice(index + 1)) {
      const apart = fields.findIndex((field, depth) => field !== other.fields[depth]);
      const oneof = fields[apart]?.oneof;
      if (oneof !== undefined && other.fields[apart]?.oneof === oneof) {
        return `binds "${fieldPath}" and "${other.fieldPath}", of which only one can be set`;
      }
    }
  }
  return undefined;
}

function nameOfRule(method: DescMethod, rule: HttpRule): string {
  const { httpMethod, path } = patternOf(rule);
  return `${httpMethod} ${path} (${nameOfMethod(method)})`;
}

function nameOfMethod(method: DescMethod): string {
  return `${method.parent.typeName}.${method.name}`;
}
