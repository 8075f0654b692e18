import type { DescField, DescMessage, DescMethod, DescMethodUnary, DescService } from "@bufbuild/protobuf";
import { getOption, hasOption } from "@bufbuild/protobuf";
import { http } from "#gen/google/api/annotations_pb.ts";
import type { HttpRule } from "#gen/google/api/http_pb.ts";
import { isHttpBody, isJsonScalar, isPlainMessage } from "./json-form.ts";
import type { Template, Variable } from "./template.ts";
import { parseTemplate } from "./template.ts";

/** One rule of one method: which requests it takes, and where each part of them goes. */
export interface Binding {
  readonly method: DescMethodUnary;
  /** "GET", "POST", a custom method's name, or "*" for every method. */
  readonly httpMethod: string;
  readonly template: Template;
  /** Where the template's variables go, in its order. */
  readonly variables: readonly BoundVariable[];
  readonly body: BodyBinding;
  /** The field that alone is sent as the answer; undefined: the whole message. */
  readonly responseBody: DescField | undefined;
}

interface BoundVariable extends Variable {
  /** From a field of the request message down to the leaf. */
  readonly fields: readonly [DescField, ...DescField[]];
}

type BodyBinding =
  /** The request has no body; what the path does not bind comes by query. */
  | { readonly kind: "none" }
  /** The body is the message without what the path binds; there is no query. */
  | { readonly kind: "whole" }
  /** The body is this field; the rest comes by query. */
  | { readonly kind: "field"; readonly field: DescField };

/**
 * The bindings of every annotated method, additional ones included; a method without the annotation has none.
 * Throws an Error naming the rule and what is wrong with it.
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

/** True where the binding's body is a `google.api.HttpBody`: bytes of any type, passed on as they are. */
export function hasRawBody({ method, body }: Pick<Binding, "method" | "body">): boolean {
  if (body.kind === "whole") return isHttpBody(method.input);
  return body.kind === "field" && body.field.fieldKind === "message" && isHttpBody(body.field.message);
}

/** How errors name a binding: "POST /v1/{name} (books.v1.Library.CreateBook)". */
export function nameOfBinding(binding: Binding): string {
  return `${binding.httpMethod} ${binding.template.source} (${nameOfMethod(binding.method)})`;
}

function bind(method: DescMethod, rule: HttpRule): Binding {
  const fail = (words: string) => new Error(`The rule ${nameOfRule(method, rule)} ${words}.`);
  if (!isUnary(method)) throw fail("is on a streaming method: only unary methods are transcoded");
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
  const variables = template.variables.map((variable) => {
    const fields = resolve(method.input, variable.fieldPath);
    if (typeof fields === "string") throw fail(fields);
    return { ...variable, fields };
  });
  const taken = overlap(variables, { method, body });
  if (taken !== undefined) throw fail(taken);
  return { method, httpMethod, template, variables, body, responseBody };
}

function isUnary(method: DescMethod): method is DescMethodUnary {
  return method.methodKind === "unary";
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

/** The fields that a path names, or what is wrong with it. */
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

/** Two parts of a request that would set the same field, or two members of one oneof. */
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
