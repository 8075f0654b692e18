import {
  type DescMessage,
  fromJson,
  type JsonObject,
  type JsonValue,
  type Registry,
} from "@bufbuild/protobuf";
import { isWrapper } from "./json-form.ts";
import { type Check, checkOfScalar, checkString, type Fault, illFormed } from "./scalar-check.ts";

/**
 * How deep messages may be nested. A deeper body is refused, so that it can't exhaust the stack.
 */
export const messageDepthMax = 100;

/**
 * Returns the check for a well-known type with a special JSON form; undefined for every other
 * message.
 */
export function checkOfKnownType(message: DescMessage, registry: Registry | undefined): Check | undefined {
  switch (message.typeName) {
    case "google.protobuf.Timestamp":
      return checkTimestamp;
    case "google.protobuf.Duration":
      return checkDuration;
    case "google.protobuf.FieldMask":
      return checkFieldMask;
    case "google.protobuf.Value":
      return checkFree;
    case "google.protobuf.Struct":
      return (value, depth) => (isJsonObject(value) ? checkFree(value, depth) : notAnObject());
    case "google.protobuf.ListValue":
      return (value, depth) =>
        Array.isArray(value) ? checkFree(value, depth) : { path: "", words: "must be an array" };
    case "google.protobuf.Any":
      return checkOfAny(message, registry);
    default: {
      const scalar = isWrapper(message) ? message.fields[0]?.scalar : undefined;
      return scalar === undefined ? undefined : checkOfScalar(scalar);
    }
  }
}

export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function notAnObject(): Fault {
  return { path: "", words: "must be an object" };
}

export function tooDeep(): Fault {
  return { path: "", words: `is nested deeper than ${messageDepthMax} levels` };
}

/** Adds a step to the front of a fault's path. */
export function prefixPath(step: string, fault: Fault): Fault {
  const dot = fault.path === "" || fault.path.startsWith("[") ? "" : ".";
  fault.path = `${step}${dot}${fault.path}`;
  return fault;
}

/** RFC 3339, years 0001 to 9999, at most nine digits of a second. */
const checkTimestamp: Check = (value) => {
  const fault = { path: "", words: 'must be a time in RFC 3339, as "2030-01-31T12:00:00Z"' };
  if (typeof value !== "string") return fault;
  const match =
    /^(\d{4})-(\d\d)-(\d\d)T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/.exec(
      value,
    );
  if (match === null) return fault;
  // Date.parse accepts 30 February and moves it to March. Compare the date to find that.
  const date = `${match[1]}-${match[2]}-${match[3]}`;
  const midnight = new Date(`${date}T00:00:00Z`);
  if (Number.isNaN(midnight.getTime()) || midnight.toISOString().slice(0, 10) !== date) return fault;
  const time = Date.parse(value);
  return time >= timestampMin && time < timestampEnd ? undefined : fault;
};

const timestampMin = Date.parse("0001-01-01T00:00:00Z");
const timestampEnd = Date.UTC(10_000, 0, 1);

const checkDuration: Check = (value) => {
  const match = typeof value === "string" && /^-?(\d{1,12})(\.\d{1,9})?s$/.exec(value);
  if (match && Number(match[1]) <= durationSecondsMax) return undefined;
  return { path: "", words: `must be a duration of at most ${durationSecondsMax} seconds, as "1.5s"` };
};

/** About 10,000 years: the range given in `google/protobuf/duration.proto`. */
const durationSecondsMax = 315_576_000_000;

const checkFieldMask: Check = (value) => {
  if (typeof value === "string" && fieldMask.test(value)) return undefined;
  return {
    path: "",
    words: 'must be field paths in lowerCamelCase joined by commas, as "title,author.name"',
  };
};

const fieldMask = /^([A-Za-z][A-Za-z0-9]*([.,][A-Za-z][A-Za-z0-9]*)*)?$/;

/**
 * Accepts any JSON that Protobuf can hold: well-formed Unicode, finite numbers, a bounded depth.
 */
const checkFree: Check = (value, depth) => {
  if (typeof value === "string") return checkString(value, depth);
  if (typeof value === "number" && !Number.isFinite(value))
    return { path: "", words: "must be a smaller number" };
  if (typeof value !== "object" || value === null) return undefined;
  if (depth >= messageDepthMax) return tooDeep();
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      const fault = checkFree(item, depth + 1);
      if (fault !== undefined) return prefixPath(`[${index}]`, fault);
    }
    return undefined;
  }
  for (const [key, item] of Object.entries(value)) {
    const fault = key.isWellFormed() ? checkFree(item, depth + 1) : illFormed();
    if (fault !== undefined) return prefixPath(key, fault);
  }
  return undefined;
};

/** Protobuf-ES decodes the value as a trial, because only it can look types up in the registry. */
function checkOfAny(message: DescMessage, registry: Registry | undefined): Check {
  return (value, depth) => {
    const fault = checkFree(value, depth);
    if (fault !== undefined) return fault;
    try {
      fromJson(message, value, { ...(registry && { registry }), recursionLimit: 2 * messageDepthMax });
      return undefined;
    } catch {
      return { path: "", words: 'must be an object with a known "@type" and the fields of that type' };
    }
  };
}
