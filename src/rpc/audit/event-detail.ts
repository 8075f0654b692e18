import type { DescEnum, DescMessage } from "@bufbuild/protobuf";
import { type Duration, type FieldMask, type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";

/** A value of a detail; undefined leaves its pair out. */
type Value = string | number | boolean | undefined;

/**
 * The detail of an event: `plan=pro role=verify`. Values are numbers, times and names that Keyrun
 * knows, and never a text of the caller's, so none holds a space or a secret.
 */
export function detailOf(pairs: Readonly<Record<string, Value>>): string {
  return Object.entries(pairs)
    .filter(([, value]) => value !== undefined && value !== "")
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");
}

/** The fields of the message that the mask names, in the message's order: `display_name,plan`. */
export function maskedFields(mask: FieldMask | undefined, message: DescMessage): string {
  const paths = new Set(mask?.paths);
  const known = message.fields.filter(({ name }) => paths.has(name));
  return known.map(({ name }) => name).join(",");
}

/** The name of an enum's number: `pro`. Undefined if it is unspecified or unknown. */
export function enumText({ value }: DescEnum, number: number): string | undefined {
  return number === 0 ? undefined : value[number]?.localName.toLowerCase();
}

/** The time in ISO 8601; undefined if it is absent, or none that there is. */
export function timeText(time: Timestamp | undefined): string | undefined {
  const date = new Date(time === undefined ? Number.NaN : timestampMs(time));
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}

/** The seconds of a span: `3600s`. Undefined if it is absent. */
export function spanText(span: Duration | undefined): string | undefined {
  return span && `${Number(span.seconds) + span.nanos / 1e9}s`;
}
