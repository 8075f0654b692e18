import { create, type Message } from "@bufbuild/protobuf";
import type { Binding } from "./binding.ts";
import { isFlat } from "./flat-message.ts";
import { fieldsByName } from "./json-form.ts";
import { parseJson } from "./json-text.ts";
import { isJsonObject } from "./known-type-check.ts";
import type { MatchedRoute } from "./route-table.ts";

/**
 * Returns the message of an ordinary request. Undefined: this reader can't read it, use the
 * decoder.
 */
export type FlatRequestReader = (route: MatchedRoute, body: Uint8Array) => Message | undefined;

/**
 * Compiles a fast reader of the most common request, for a message that holds only strings: the
 * body is an object with some of them, each once, and the others are in the path. It reads in one
 * pass. The decoder needs several to name a fault, so on any fault this reader returns undefined
 * and the decoder reads again. Undefined for a binding of any other kind.
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
    // Protobuf-ES stores fields as properties under their local names.
    const message = create(desc) as Message & Record<string, unknown>;
    let seen = 0;
    for (const key of Object.keys(json)) {
      const value = json[key];
      const field = inBody.get(key);
      if (field === undefined || typeof value !== "string" || !value.isWellFormed()) return undefined;
      // The body has the same field under both of its names.
      if ((seen & field.flag) !== 0) return undefined;
      seen |= field.flag;
      message[field.localName] = value;
    }
    for (const { fieldPath, localName } of inPath) message[localName] = captures.get(fieldPath) ?? "";
    return message;
  };
}

/** Each field is one bit of a 32-bit integer. */
const flagsMax = 31;

/**
 * The fields that a body may set, under both of their names. Fields set by the path are left out.
 */
function bodyFieldsOf({ method: { input }, variables }: Binding) {
  const bound = new Set(variables.map(({ fields: [field] }) => field));
  const fields = new Map<string, { readonly localName: string; readonly flag: number }>();
  for (const [name, field] of fieldsByName(input)) {
    if (bound.has(field)) continue;
    fields.set(name, { localName: field.localName, flag: 1 << input.fields.indexOf(field) });
  }
  return fields;
}
