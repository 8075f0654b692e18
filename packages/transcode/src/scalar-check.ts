import { type DescEnum, type JsonValue, ScalarType } from "@bufbuild/protobuf";

/** What is wrong with a JSON value, and where. */
export interface Fault {
  /**
   * The path from the checked value to the value at fault, spelled as the caller spelled it. Empty
   * if the fault is in the checked value itself.
   */
  path: string;
  /** Words that follow the path, such as "must be a string". */
  readonly words: string;
  /** True if a number is too large for `JSON.parse` to keep exactly: read its digits again. */
  readonly inexact?: true;
}

/** Checks one JSON value that is nested `depth` levels deep. Undefined means that it is fine. */
export type Check = (value: JsonValue, depth: number) => Fault | undefined;

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
  const shown = desc.values.slice(0, enumNamesShownMax).map((value) => value.jsonName);
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

export function illFormed(): Fault {
  return { path: "", words: "must be valid Unicode: it has half of a surrogate pair" };
}

const enumNamesShownMax = 20;
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
    if (Number.isInteger(number) && number >= min && number <= max) return undefined;
    return { path: "", words: `must be a whole number from ${min} to ${max}` };
  };
}

function checkOfInt64(min: bigint, max: bigint): Check {
  return (value) => {
    const fault = { path: "", words: `must be a whole number from ${min} to ${max}` };
    if (typeof value === "number") {
      if (!Number.isInteger(value)) return fault;
      if (!Number.isSafeInteger(value)) return { ...fault, inexact: true };
      return value >= min && value <= max ? undefined : fault;
    }
    if (typeof value !== "string" || value.length > digitsMax || !wholeNumber.test(value)) return fault;
    const number = BigInt(value);
    return number >= min && number <= max ? undefined : fault;
  };
}
