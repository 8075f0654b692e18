/** JSON Pointers (RFC 6901): a place in JSON, such as `/choices/0/message`. */

export interface JsonPointer {
  readonly at: string;
  readonly steps: readonly string[];
}

/** Empty, or members that each follow a slash, in which `~` stands in `~0` and `~1` alone. */
const pointerForm = /^(?:\/(?:[^~/]|~[01])*)*$/;

/** Undefined where the text is no pointer. */
export function readJsonPointer(at: string): JsonPointer | undefined {
  if (!pointerForm.test(at)) return undefined;
  const names = at.split("/").slice(1);
  return { at, steps: names.map((name) => name.replaceAll("~1", "/").replaceAll("~0", "~")) };
}

/** The value in JSON that a pointer leads to; undefined where there is none. */
export function valueAt(json: unknown, { steps }: Pick<JsonPointer, "steps">): unknown {
  return steps.reduce(memberOf, json);
}

/** The own member of an object, or the item of an array. */
export function memberOf(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
  if (Array.isArray(value) && !arrayIndex.test(name)) return undefined;
  return Reflect.get(value, name);
}

const arrayIndex = /^(?:0|[1-9]\d*)$/;
