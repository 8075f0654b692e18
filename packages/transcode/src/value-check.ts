// Checks of single JSON values by the rules of ProtoJSON: well-known types, scalars and enums.

import { type DescEnum, type DescMessage, fromJson, type Registry, ScalarType } from "@bufbuild/protobuf";
import { isJsonObject, isWrapper } from "./json-form.ts";
import type { Check, Fault } from "./problem.ts";

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

export function notAnObject(): Fault {
  return { path: "", words: "must be an object" };
}

export function tooDeep(): Fault {
  return { path: "", words: `is nested deeper than ${messageDepthMax} levels` };
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
  if (match) return { path: "", words: `must be at most ${durationSecondsMax} seconds` };
  return { path: "", words: 'must be a number of seconds and its unit s, as "30s" or "1.5s"' };
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
 * A fault has no path: the names in such JSON are the caller's data.
 */
const checkFree: Check = (value, depth) => {
  if (typeof value === "string") return checkString(value, depth);
  if (typeof value === "number" && !Number.isFinite(value)) return notExact();
  if (typeof value !== "object" || value === null) return undefined;
  if (depth >= messageDepthMax) return tooDeep();
  if (Array.isArray(value)) {
    for (const item of value) {
      const fault = checkFree(item, depth + 1);
      if (fault !== undefined) return fault;
    }
    return undefined;
  }
  for (const [key, item] of Object.entries(value)) {
    const fault = key.isWellFormed() ? checkFree(item, depth + 1) : illFormed();
    if (fault !== undefined) return fault;
  }
  return undefined;
};

/** For a number that is not the same as a double: other numbers past 2^53, and too large ones. */
export function notExact(): Fault {
  return { path: "", words: "has a number that a double can't hold. Send it as a string" };
}

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

/**
 * Returns the check of a scalar by the rules of ProtoJSON. It is stricter than Protobuf-ES, which
 * accepts strings that are not a JSON number ("0x10") or not base64. Both accept numbers in
 * strings, as ProtoJSON does.
 */
export function checkOfScalar(scalar: ScalarType): Check {
  switch (scalar) {
    case ScalarType.STRING:
      return checkString;
    case ScalarType.BOOL:
      return (value) =>
        typeof value === "boolean" ? undefined : { path: "", words: "must be true or false" };
    case ScalarType.BYTES:
      return checkBytes;
    case ScalarType.DOUBLE:
      return checkOfFloat(Number.MAX_VALUE);
    case ScalarType.FLOAT:
      return checkOfFloat(floatMax);
    case ScalarType.UINT32:
    case ScalarType.FIXED32:
      return checkOfInt32(0, 2 ** 32 - 1);
    case ScalarType.INT32:
    case ScalarType.SINT32:
    case ScalarType.SFIXED32:
      return checkOfInt32(-(2 ** 31), 2 ** 31 - 1);
    case ScalarType.UINT64:
    case ScalarType.FIXED64:
      return checkOfInt64(0n, 2n ** 64n - 1n);
    case ScalarType.INT64:
    case ScalarType.SINT64:
    case ScalarType.SFIXED64:
      return checkOfInt64(-(2n ** 63n), 2n ** 63n - 1n);
  }
}

/**
 * An enum value is a name or a number. An open enum accepts every int32, a closed enum only
 * declared numbers.
 */
export function checkOfEnum(desc: DescEnum): Check {
  const names = new Set(desc.values.flatMap((value) => [value.name, value.jsonName]));
  const numbers = new Set(desc.values.map((value) => value.number));
  const shown = desc.values.slice(0, namesShownMax).map((value) => value.jsonName);
  if (desc.values.length > shown.length) shown.push("…");
  const fault = { words: `must be one of ${shown.join(", ")}` };
  const isInt32 = checkOfInt32(-(2 ** 31), 2 ** 31 - 1);
  return (value) => {
    if (typeof value === "string" && names.has(value)) return undefined;
    if (typeof value === "number" && (desc.open ? isInt32(value, 0) === undefined : numbers.has(value))) {
      return undefined;
    }
    return { path: "", ...fault };
  };
}

/**
 * A string must be well-formed Unicode, because half of a surrogate pair can't be written as UTF-8.
 */
export const checkString: Check = (value) => {
  if (typeof value !== "string") return { path: "", words: "must be a string" };
  return value.isWellFormed() ? undefined : illFormed();
};

function illFormed(): Fault {
  return { path: "", words: "must be valid Unicode: it has half of a surrogate pair" };
}

/** How many names a fault lists: those of an enum, or of the fields of a message. */
export const namesShownMax = 20;
const floatMax = (2 - 2 ** -23) * 2 ** 127;
const wholeNumber = /^-?[0-9]+$/;
const jsonNumber = /^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$/;
/** A longer string can't be a 64-bit number, even with some leading zeros, and is not parsed. */
const digitsMax = 40;

const checkBytes: Check = (value) => {
  const fault = { path: "", words: "must be bytes in base64" };
  if (typeof value !== "string") return fault;
  const digits = value.indexOf("=") === -1 ? value.length : value.indexOf("=");
  const padding = value.length - digits;
  if (padding > 2 || (padding > 0 && value.length % 4 !== 0) || digits % 4 === 1) return fault;
  return /^[A-Za-z0-9+/_-]*={0,2}$/.test(value) ? undefined : fault;
};

function checkOfFloat(max: number): Check {
  return (value) => {
    if (value === "NaN" || value === "Infinity" || value === "-Infinity") return undefined;
    const isNumber = typeof value === "number" || (typeof value === "string" && jsonNumber.test(value));
    if (isNumber && Math.abs(Number(value)) <= max) return undefined;
    return { path: "", words: isNumber ? "must be a number within its type's range" : "must be a number" };
  };
}

function checkOfInt32(min: number, max: number): Check {
  return (value) => {
    const isNumber = typeof value === "number" || (typeof value === "string" && jsonNumber.test(value));
    const number = isNumber ? Number(value) : Number.NaN;
    if (!Number.isInteger(number)) return noWholeNumber();
    return rangeFault(number, { min, max });
  };
}

function noWholeNumber(): Fault {
  return { path: "", words: "must be a whole number, as 10" };
}

function rangeFault<T extends number | bigint>(
  number: T,
  { min, max }: { min: T; max: T },
): Fault | undefined {
  if (number > max) return { path: "", words: `must be at most ${max}` };
  return number < min ? { path: "", words: `must be at least ${min}` } : undefined;
}

function checkOfInt64(min: bigint, max: bigint): Check {
  return (value) => {
    if (typeof value === "number") {
      if (!Number.isInteger(value)) return noWholeNumber();
      // Its digits may have been lost: they are read again.
      if (!Number.isSafeInteger(value)) return { ...noWholeNumber(), inexact: true };
      return rangeFault(BigInt(value), { min, max });
    }
    if (typeof value !== "string" || value.length > digitsMax || !wholeNumber.test(value)) {
      return noWholeNumber();
    }
    return rangeFault(BigInt(value), { min, max });
  };
}
