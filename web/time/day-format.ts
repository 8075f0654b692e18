import { languages } from "./local-format.ts";

let dayFormat: Intl.DateTimeFormat | undefined;

/** The local day: "22 Dec 2026". */
export function dayInWords(ms: number): string {
  return format().format(ms);
}

/** The language of `dayInWords`, for the attribute `lang`. */
export function dayLanguage(): string {
  return format().resolvedOptions().locale;
}

function format(): Intl.DateTimeFormat {
  dayFormat ??= new Intl.DateTimeFormat(languages(), { dateStyle: "medium" });
  return dayFormat;
}
