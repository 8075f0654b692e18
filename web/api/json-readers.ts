import type { Message } from "@bufbuild/protobuf";
import type { Timestamp } from "@bufbuild/protobuf/wkt";

/**
 * Makes a value of what an answer holds in a place, by the JSON form of protobuf. An absent field
 * gets its default. The answers come from Keyrun itself, so nothing is checked twice.
 */
export type Reader<T> = (json: unknown) => T;

/** A reader for each field of a message. A new field in the protos is an error of types here. */
export type FieldReaders<M> = {
  readonly [Field in keyof Omit<M, "$typeName" | "$unknown">]-?: Reader<M[Field]>;
};

export function message<M extends Message>(typeName: M["$typeName"], fields: FieldReaders<M>): Reader<M> {
  const readers = Object.entries<Reader<unknown>>(fields);
  return (json) => {
    const read: Record<string, unknown> = { $typeName: typeName };
    for (const [name, reader] of readers) {
      const value = reader(fieldOf(json, name));
      if (value !== undefined) read[name] = value;
    }
    return read as unknown as M;
  };
}

/** What a JSON object holds in a field; undefined if it holds nothing there. */
export function fieldOf(json: unknown, name: string): unknown {
  return typeof json === "object" && json !== null && Object.hasOwn(json, name)
    ? json[name as keyof typeof json]
    : undefined;
}

export const text: Reader<string> = (json) => (typeof json === "string" ? json : "");
export const int32: Reader<number> = (json) => (typeof json === "number" ? json : 0);
/** A 64-bit number, which JSON has as a text. */
export const int64: Reader<bigint> = (json) => BigInt(text(json) || 0);
export const flag: Reader<boolean> = (json) => json === true;

export function list<T>(item: Reader<T>): Reader<T[]> {
  return (json) => (Array.isArray(json) ? json.map(item) : []);
}

export function optional<T>(reader: Reader<T>): Reader<T | undefined> {
  return (json) => (json === undefined || json === null ? undefined : reader(json));
}

/** A value of an enum by its name. A number is one that this page does not know yet. */
export function enumeration<E extends Readonly<Record<string, number>>>(values: E, prefix: string) {
  return (json: unknown): E[keyof E] => {
    const number = typeof json === "number" ? json : values[text(json).slice(prefix.length)];
    return (number ?? 0) as E[keyof E];
  };
}

/** "2026-11-21T14:36:16.673Z" with up to nine digits of a second. */
export const timestamp: Reader<Timestamp> = (json) => {
  const [, whole = "", fraction = ""] = /^(.*?)(?:\.(\d+))?Z$/.exec(text(json)) ?? [];
  return {
    $typeName: "google.protobuf.Timestamp",
    seconds: BigInt(Math.floor(Date.parse(`${whole}Z`) / 1_000)),
    nanos: Number(fraction.padEnd(9, "0")),
  };
};
