import { type DescField, type JsonObject, type JsonValue, ScalarType } from "@bufbuild/protobuf";
import { isWrapper } from "./json-form.ts";
import { isJsonObject } from "./known-type-check.ts";
import { siblingIn } from "./message-check.ts";

/** A path of fields: from a field of the message itself down to the last one, the leaf. */
export type FieldPath = readonly [DescField, ...DescField[]];

/**
 * The key that the object uses for the field: its JSON name or its proto name. Undefined if absent.
 */
function keyIn(object: JsonObject, field: DescField): string | undefined {
  if (Object.hasOwn(object, field.jsonName)) return field.jsonName;
  return Object.hasOwn(object, field.name) ? field.name : undefined;
}

/**
 * Returns the path in the object's own spelling if the object has the leaf, even if it is null.
 * Otherwise undefined.
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
  /** The leaf, or a field above it, is in a oneof of which this other member is set. */
  | { readonly kind: "excluded"; readonly by: string };

/**
 * Sets the leaf of the path and creates the objects above it. A list gets one more item. A value
 * that is already there is never changed.
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
 * Converts a value from a path or a query to the JSON of the field, or of one item of a list. Text
 * that does not fit the field stays a string, and the field's check refuses it.
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
