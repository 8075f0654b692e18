import type { DescField, JsonObject, JsonValue } from "@bufbuild/protobuf";
import { ScalarType } from "@bufbuild/protobuf";
import { isWrapper } from "./json-form.ts";
import { isJsonObject } from "./known-type-check.ts";
import { siblingIn } from "./message-check.ts";

/** A path into a message: from a field of its own down to the leaf. */
export type FieldPath = readonly [DescField, ...DescField[]];

/** The key under which the object has the field, in whichever spelling; undefined where it has none. */
function keyIn(object: JsonObject, field: DescField): string | undefined {
  if (Object.hasOwn(object, field.jsonName)) return field.jsonName;
  return Object.hasOwn(object, field.name) ? field.name : undefined;
}

/**
 * The path, as the object spells it, where the object has the leaf, be it null; undefined where it has not.
 */
export function findIn(root: JsonObject, path: FieldPath): string | undefined {
  const names: string[] = [];
  let value: JsonValue | undefined = root;
  for (const field of path) {
    if (!isJsonObject(value)) return undefined;
    const key = keyIn(value, field);
    if (key === undefined) return undefined;
    names.push(key);
    value = value[key];
  }
  return names.join(".");
}

export type Placed =
  | { readonly kind: "placed" }
  /** The leaf has a value already. */
  | { readonly kind: "taken" }
  /** This other member of a oneof on the way has a value already. */
  | { readonly kind: "excluded"; readonly by: string };

/**
 * Sets the leaf of the path, making the objects on the way; a list gets one more item. Changes nothing that
 * is there already.
 */
export function place(root: JsonObject, path: FieldPath, value: JsonValue): Placed {
  let object = root;
  let above = "";
  let depth = 0;
  for (const field of path) {
    const sibling = siblingIn(object, field);
    if (sibling !== undefined) return { kind: "excluded", by: above + sibling };
    const key = keyIn(object, field) ?? field.jsonName;
    const present = object[key];
    if (++depth < path.length) {
      const next: JsonObject = isJsonObject(present) ? present : {};
      object[key] = next;
      object = next;
      above += `${key}.`;
    } else if (field.fieldKind === "list") {
      if (Array.isArray(present)) present.push(value);
      else object[key] = [value];
    } else {
      if (present !== undefined) return { kind: "taken" };
      object[key] = value;
    }
  }
  return { kind: "placed" };
}

/**
 * A value of a path or a query as the JSON of the field, or of an item where it is a list. What can't be the
 * field's JSON stays a string, and the field's check refuses it.
 */
export function jsonOfText(field: DescField, text: string): JsonValue {
  if (field.enum !== undefined) return /^-?[0-9]{1,10}$/.test(text) ? Number(text) : text;
  const scalar = field.message === undefined ? field.scalar : wrapped(field);
  if (scalar === ScalarType.BOOL && text === "true") return true;
  if (scalar === ScalarType.BOOL && text === "false") return false;
  return text;
}

function wrapped(field: DescField): ScalarType | undefined {
  return field.message !== undefined && isWrapper(field.message)
    ? field.message.fields[0]?.scalar
    : undefined;
}
