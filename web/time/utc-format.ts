import { languages } from "./local-format.ts";

let format: Intl.DateTimeFormat | undefined;

/** The date and time in UTC, which it says: "1 Dec 2026, 00:00 UTC". */
export function utcTime(ms: number): string {
  return `${inUtc().format(ms)} UTC`;
}

/** The language of `utcTime`, for the attribute `lang`. */
export function utcTimeLanguage(): string {
  return inUtc().resolvedOptions().locale;
}

function inUtc(): Intl.DateTimeFormat {
  format ??= new Intl.DateTimeFormat(languages(), {
    dateStyle: "medium",
    timeStyle: "short",
    timeZone: "UTC",
  });
  return format;
}
