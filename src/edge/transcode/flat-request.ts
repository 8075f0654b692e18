import type { Message } from "@bufbuild/protobuf";
import { create } from "@bufbuild/protobuf";
import type { Binding } from "./binding.ts";
import { isFlat } from "./flat-message.ts";
import { fieldsByName } from "./json-form.ts";
import { parseJson } from "./json-text.ts";
import { isJsonObject } from "./known-type-check.ts";
import type { MatchedRoute } from "./route-table.ts";

/** The request's message; undefined where the request has a fault or is of another kind than the usual. */
export type FlatRequestReader = (route: MatchedRoute, body: Uint8Array) => Message | undefined;

/**
 * Compiles a reader of the usual request, for a message that holds nothing but strings: the body an object of some of
 * them, each once, the others in the path. It makes one pass where the decoder makes several to be able to name what is
 * wrong; so whatever is, the decoder is to read again. Undefined for a binding of any other kind.
 */
export function flatRequestReaderOf(binding: Binding): FlatRequestReader | undefined {
  const desc = binding.method.input;
  const { variables } = binding;
  const fits = binding.body.kind === "whole" && isFlat(desc) && desc.fields.length <= flagsMax;
  if (!fits || variables.some(({ fields }) => fields.length > 1)) return undefined;
  const inPath = variables.map(({ fieldPath, fields: [{ localName }] }) => ({ fieldPath, localName }));
  const inBody = bodyFieldsOf(binding);

  return ({ captures, query }, bytes) => {
    if (query !== "") return undefined;
    const body = parseJson(bytes);
    if (body.kind === "problem" || !isJsonObject(body.json)) return undefined;
    const { json } = body;
    // A message's fields are its properties, under their local names.
    const message = create(desc) as Message & Record<string, unknown>;
    let seen = 0;
    for (const key of Object.keys(json)) {
      const value = json[key];
      const field = inBody.get(key);
      if (field === undefined || typeof value !== "string" || !value.isWellFormed()) return undefined;
      // The same field under its other name.
      if ((seen & field.flag) !== 0) return undefined;
      seen |= field.flag;
      message[field.localName] = value;
    }
    for (const { fieldPath, localName } of inPath) message[localName] = captures.get(fieldPath) ?? "";
    return message;
  };
}

/** Fields are told apart by the bits of one number. */
const flagsMax = 31;

/** The fields that a body may set, under each of their names: what the path binds is refused there. */
function bodyFieldsOf({ method: { input }, variables }: Binding) {
  const bound = new Set(variables.map(({ fields: [field] }) => field));
  const fields = new Map<string, { readonly localName: string; readonly flag: number }>();
  for (const [name, field] of fieldsByName(input)) {
    if (bound.has(field)) continue;
    fields.set(name, { localName: field.localName, flag: 1 << input.fields.indexOf(field) });
  }
  return fields;
}
