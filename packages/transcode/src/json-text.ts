// Bytes to JSON, more strictly than `JSON.parse`: UTF-8 only, no name twice, a bounded number of
// values.

import type { DescField, JsonValue } from "@bufbuild/protobuf";
import { type Problem, problem, problemOf } from "./problem.ts";

/**
 * How many values a JSON text may have, names not counted. Reading makes an object of nearly each,
 * all in one turn of the event loop: 1 MiB of `[],` would hold up everybody else for 60 ms.
 */
export const jsonValuesMax = 20_000;

/** A text of JSON and its value. */
export interface ParsedJson {
  readonly kind: "json";
  readonly json: JsonValue;
  readonly text: string;
}

/**
 * Parses bytes as JSON in UTF-8 (RFC 8259). A byte order mark or text after the value is refused,
 * and so is an object, at any depth, that has a name twice: `JSON.parse` would take the last one,
 * and another reader of the same bytes the first. More than `jsonValuesMax` values are refused
 * before they are read, in the name of the field that alone can have so many, if there is one.
 */
export function parseJson(bytes: Uint8Array, manyIn?: DescField): ParsedJson | Problem {
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    return problem("invalid_json", "The body is not valid UTF-8, as JSON must be.");
  }
  const { members, values } = countSigns(text);
  if (values > jsonValuesMax) return tooManyValues(manyIn);
  try {
    const json: JsonValue = JSON.parse(text);
    if (members > 1 && members !== membersOf(json)) return problem("invalid_json", nameTwice);
    return { kind: "json", json, text };
  } catch {
    // The parser's message quotes a part of the body, which may be a secret, so it is not passed
    // on.
    const mark = text.startsWith("\ufeff") ? " It begins with a byte order mark: send it without." : "";
    return problem("invalid_json", `The body is not valid JSON.${mark}`);
  }
}

/** For a body in which an object has a name twice. */
const nameTwice = "The body has an object with one name twice. Send each name once.";

function tooManyValues(manyIn: DescField | undefined): Problem {
  if (manyIn) return problemOf(manyIn.jsonName, `has more than ${jsonValuesMax} values. Send fewer`);
  return problem("invalid_argument", `The body has more than ${jsonValuesMax} values. Send fewer.`);
}

/** Whether a text, if it is JSON, has more than `jsonValuesMax` values. */
export function hasTooManyValues(text: string): boolean {
  // Each value but the first has a sign before it.
  return text.length > jsonValuesMax && countSigns(text).values > jsonValuesMax;
}

/**
 * How many members the objects of a JSON text have, and how many values it has at most: each member
 * has one colon outside of strings, and each value a comma or an opening bracket before it. Past
 * `jsonValuesMax` it stops.
 */
function countSigns(text: string): { members: number; values: number } {
  let members = 0;
  let values = 1;
  for (let at = 0; at < text.length && values <= jsonValuesMax; at++) {
    const code = text.charCodeAt(at);
    if (code === quote) at = endOfString(text, at);
    else if (code === colon) members++;
    else if (code === comma || code === bracket || code === brace) values++;
  }
  return { members, values };
}

/** Where the string ends that begins here. `indexOf` takes a tenth of the time of a loop. */
function endOfString(text: string, begin: number): number {
  const end = text.indexOf('"', begin + 1);
  if (end < 0) return text.length;
  if (text.charCodeAt(end - 1) !== backslash) return end;
  let at = begin + 1;
  while (at < text.length && text.charCodeAt(at) !== quote) at += text.charCodeAt(at) === backslash ? 2 : 1;
  return at;
}

/** How many members are left in the parsed objects. No recursion: the depth has no bound. */
function membersOf(json: JsonValue): number {
  let members = 0;
  const unread = [json];
  for (let value = unread.pop(); value !== undefined; value = unread.pop()) {
    if (typeof value !== "object" || value === null) continue;
    const items = Array.isArray(value) ? value : Object.values(value);
    if (items !== value) members += items.length;
    for (const item of items) if (typeof item === "object" && item !== null) unread.push(item);
  }
  return members;
}

const [quote, backslash, colon, comma, bracket, brace] = [0x22, 0x5c, 0x3a, 0x2c, 0x5b, 0x7b];

/**
 * Parses the text again and returns every number that is no safe integer as a string of its digits.
 * `JSON.parse` recurses when it has a reviver, so the depth of the text must be bounded.
 */
export function parseJsonKeepingDigits(text: string): JsonValue {
  return JSON.parse(text, (_key: string, value: JsonValue, context?: { source?: string }) =>
    typeof value === "number" && !Number.isSafeInteger(value) ? context?.source : value,
  );
}

/** Whether a number in the JSON passes the test. The depth must be bounded. */
export function someNumber(json: JsonValue, test: (number: number) => boolean): boolean {
  if (typeof json === "number") return test(json);
  if (typeof json !== "object" || json === null) return false;
  return Object.values(json).some((item) => someNumber(item, test));
}

/** Whether it is a whole number past 2^53, which need not be the one that was written. */
export function isUnsafe(number: number): boolean {
  return Number.isInteger(number) && !Number.isSafeInteger(number);
}

/**
 * Parses valid JSON, with `Infinity` in place of each number that is written in digits alone and
 * that `JSON.parse` would change. A number that is too large for `JSON.parse` is `Infinity` anyway.
 */
export function parseJsonMarkingChanged(text: string): JsonValue {
  return JSON.parse(text.replaceAll(stringsAndNumbers, (token) => (isChanged(token) ? "1e999" : token)));
}

const stringsAndNumbers = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g;

/** Digits that are those of the double when it is written again are not changed for any caller. */
function isChanged(token: string): boolean {
  const value = Number(token);
  if (!/^-?\d+$/.test(token) || !Number.isFinite(value)) return false;
  return BigInt(token) !== BigInt(value) && token !== String(value);
}

/** True if arrays and objects are nested more than `levels` deep. */
export function isDeeperThan(levels: number, json: JsonValue): boolean {
  if (typeof json !== "object" || json === null) return false;
  return levels === 0 || Object.values(json).some((item) => isDeeperThan(levels - 1, item));
}

/** Keeps a byte order mark, so that `JSON.parse` refuses it. Throws on invalid UTF-8. */
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
