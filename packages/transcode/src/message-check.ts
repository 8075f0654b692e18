// Checks of JSON against a message's descriptor: its fields, lists, maps and oneofs.

import {
  type DescField,
  type DescMessage,
  type JsonObject,
  type JsonValue,
  type Registry,
  ScalarType,
} from "@bufbuild/protobuf";
import { fieldsByName, hasPlainJson, isJsonObject } from "./json-form.ts";
import { type Check, type Fault, prefixPath } from "./problem.ts";
import {
  checkOfEnum,
  checkOfKnownType,
  checkOfScalar,
  checkString,
  messageDepthMax,
  namesShownMax,
  notAnObject,
  tooDeep,
} from "./value-check.ts";

export interface Checks {
  /** Checks JSON that will become this message. */
  ofMessage(message: DescMessage): Check;
  /** The same of a body that can't set some fields. They are not named among the known ones. */
  ofBody(message: DescMessage, elsewhere: readonly DescField[]): Check;
  /** Checks JSON that will become this field: the whole list or map, or the singular value. */
  ofField(field: DescField): Check;
  /** Checks JSON that will become one item of a list or map, or the value of a singular field. */
  ofItem(field: DescField): Check;
}

/**
 * Compiles checks of JSON against descriptors, once for each type. Protobuf-ES reads the JSON
 * afterwards. It has the same rules, but its errors name no path, and it silently loses digits of
 * large numbers. A check may delete a `null` that means "absent" from an object.
 */
export function createChecks(registry: Registry | undefined): Checks {
  const compiled = new Map<DescMessage, Check>();
  const checks: Checks = {
    ofMessage(message) {
      let check = compiled.get(message);
      if (check === undefined) {
        check = checkOfKnownType(message, registry) ?? checkOfFields(message, checks);
        compiled.set(message, check);
      }
      return check;
    },
    ofBody: (message, elsewhere) =>
      hasPlainJson(message) ? checkOfFields(message, checks, elsewhere) : checks.ofMessage(message),
    ofField(field) {
      if (field.fieldKind === "list") return checkOfList(field, checks.ofItem(field));
      if (field.fieldKind === "map") return checkOfMap(field, checks.ofItem(field));
      return checks.ofItem(field);
    },
    ofItem(field) {
      if (field.message !== undefined) return checks.ofMessage(field.message);
      if (field.enum !== undefined) return takesNull(field) ? checkNullValue : checkOfEnum(field.enum);
      return checkOfScalar(field.scalar);
    },
  };
  return checks;
}

/** True for the two types that have JSON null as a value. For all others null means absent. */
export function takesNull(field: DescField): boolean {
  return (
    field.message?.typeName === "google.protobuf.Value" ||
    field.enum?.typeName === "google.protobuf.NullValue"
  );
}

interface Entry {
  readonly field: DescField;
  readonly takesNull: boolean;
  readonly check: Check;
}

function checkOfFields(message: DescMessage, checks: Checks, elsewhere: readonly DescField[] = []): Check {
  // Filled on first use, because a message type may contain itself.
  const entries = new Map<string, Entry>();
  const fill = () => {
    for (const [name, field] of fieldsByName(message)) {
      const nullable = takesNull(field) && field.fieldKind !== "list" && field.fieldKind !== "map";
      entries.set(name, { field, takesNull: nullable, check: checks.ofField(field) });
    }
  };
  return (value, depth) => {
    if (!isJsonObject(value)) return notAnObject();
    if (depth >= messageDepthMax) return tooDeep();
    if (entries.size === 0) fill();
    for (const key of Object.keys(value)) {
      const item = value[key] ?? null;
      const entry = entries.get(key);
      if (entry === undefined)
        // A key may be the empty string. It is shown as "", because an empty path means the whole
        // message.
        return { path: key || '""', words: `is no field here. ${wordsOfNames(message, elsewhere)}` };
      const { field } = entry;
      const other = key === field.jsonName ? field.name : field.jsonName;
      if (other !== key && Object.hasOwn(value, other))
        return { path: key, words: `and ${other} are one field` };
      if (item === null && !entry.takesNull) {
        // Null means absent, but Protobuf-ES would count it as a member of its oneof that is set.
        if (field.oneof !== undefined) delete value[key];
        continue;
      }
      const fault = checkOneof(field, value) ?? entry.check(item, depth + 1);
      if (fault !== undefined) return prefixPath(key, fault);
    }
    return undefined;
  };
}

/** Which names the caller may have meant. */
export function wordsOfNames({ fields }: DescMessage, elsewhere: readonly DescField[]): string {
  const names = fields.filter((field) => !elsewhere.includes(field)).map(({ jsonName }) => jsonName);
  if (names.length === 0) return "There is none";
  if (names.length === 1) return `The only one is ${names[0]}`;
  const shown = names.slice(0, namesShownMax);
  if (shown.length < names.length) shown.push("…");
  return `Use one of: ${shown.join(", ")}`;
}

function checkOneof(field: DescField, value: JsonObject): Fault | undefined {
  const sibling = siblingIn(value, field);
  return sibling === undefined ? undefined : { path: "", words: `and ${sibling} can't both be set` };
}

/** Returns the key of another member of the field's oneof that the object sets. */
export function siblingIn(value: JsonObject, field: DescField): string | undefined {
  if (field.oneof === undefined) return undefined;
  for (const member of field.oneof.fields) {
    if (member === field) continue;
    for (const name of [member.jsonName, member.name]) {
      if (Object.hasOwn(value, name) && (value[name] !== null || takesNull(member))) return name;
    }
  }
  return undefined;
}

const checkNullValue: Check = (value) =>
  value === null || value === "NULL_VALUE" || value === 0 ? undefined : { path: "", words: "must be null" };

function checkOfList(field: DescField, check: Check): Check {
  const nullable = takesNull(field);
  return (value, depth) => {
    if (!Array.isArray(value)) return { path: "", words: "must be an array" };
    for (const [index, item] of value.entries()) {
      const fault = checkItem(item, nullable, check, depth);
      if (fault !== undefined) return prefixPath(`[${index}]`, fault);
    }
    return undefined;
  };
}

function checkOfMap(field: DescField & { fieldKind: "map" }, check: Check): Check {
  const nullable = takesNull(field);
  const checkKey = checkOfMapKey(field.mapKey);
  return (value, depth) => {
    if (!isJsonObject(value)) return notAnObject();
    for (const [key, item] of Object.entries(value)) {
      const fault = checkKey(key, depth) ?? checkItem(item, nullable, check, depth);
      if (fault !== undefined) return prefixPath(key, fault);
    }
    return undefined;
  };
}

function checkItem(value: JsonValue, nullable: boolean, check: Check, depth: number): Fault | undefined {
  if (value === null && !nullable) return { path: "", words: "must not be null" };
  return check(value, depth);
}

/**
 * Only one spelling of a key is accepted, so that two keys of an object can't be the same map
 * entry.
 */
function checkOfMapKey(mapKey: ScalarType): Check {
  if (mapKey === ScalarType.STRING) return checkString;
  if (mapKey === ScalarType.BOOL) {
    return (key) =>
      key === "true" || key === "false" ? undefined : { path: "", words: "must be the key true or false" };
  }
  const inRange = checkOfScalar(mapKey);
  return (key, depth) =>
    typeof key === "string" && /^(0|-?[1-9][0-9]*)$/.test(key) && inRange(key, depth) === undefined
      ? undefined
      : { path: "", words: "must be a key that is a whole number within its type's range" };
}
