import type { DescField, DescMessage, JsonObject, JsonValue, Registry } from "@bufbuild/protobuf";
import { ScalarType } from "@bufbuild/protobuf";
import { fieldsByName } from "./json-form.ts";
import {
  below,
  checkOfKnownType,
  isJsonObject,
  messageDepthMax,
  notAnObject,
  tooDeep,
} from "./known-type-check.ts";
import type { Check, Fault } from "./scalar-check.ts";
import { checkOfEnum, checkOfScalar, checkString } from "./scalar-check.ts";

export interface Checks {
  /** For a JSON value that is to be the message. */
  ofMessage(message: DescMessage): Check;
  /** For a JSON value that is to be the field, with all the items of a list or a map. */
  ofField(field: DescField): Check;
  /** For one item of a list or map, or the value of a singular field. */
  ofItem(field: DescField): Check;
}

/**
 * Compiles checks of JSON against descriptors, each type once. Protobuf-ES then reads what has passed; it has
 * the same rules, but its errors name no path, and it drops digits of large numbers without a word. A check
 * may take `null` out of an object where it means absent.
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

/** True for the two types for which JSON null is a value, not absence. */
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

function checkOfFields(message: DescMessage, checks: Checks): Check {
  // Filled on first use: a message may hold itself.
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
        // A name of no characters is one too: without a path the fault would be the whole message's.
        return { path: key || '""', words: "is no field here. Remove it, or check its spelling" };
      const { field } = entry;
      const other = key === field.jsonName ? field.name : field.jsonName;
      if (other !== key && Object.hasOwn(value, other))
        return { path: key, words: `and ${other} are one field` };
      if (item === null && !entry.takesNull) {
        // Absent and null are equal, but Protobuf-ES counts a null as a member of its oneof that is set.
        if (field.oneof !== undefined) delete value[key];
        continue;
      }
      const fault = checkOneof(field, value) ?? entry.check(item, depth + 1);
      if (fault !== undefined) return below(key, fault);
    }
    return undefined;
  };
}

function checkOneof(field: DescField, value: JsonObject): Fault | undefined {
  const sibling = siblingIn(value, field);
  return sibling === undefined ? undefined : { path: "", words: `and ${sibling} can't both be set` };
}

/** The key of another member of the field's oneof that the object sets. */
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
      if (fault !== undefined) return below(`[${index}]`, fault);
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
      if (fault !== undefined) return below(key, fault);
    }
    return undefined;
  };
}

function checkItem(value: JsonValue, nullable: boolean, check: Check, depth: number): Fault | undefined {
  if (value === null && !nullable) return { path: "", words: "must not be null" };
  return check(value, depth);
}

/** A key has one spelling, so that no two keys of an object can mean the same entry. */
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
