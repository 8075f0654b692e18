// Each format is made when it is first used: on a phone, making one takes some milliseconds.
let numberFormat: Intl.NumberFormat | undefined;
let exactFormat: Intl.DateTimeFormat | undefined;
let clockFormat: Intl.DateTimeFormat | undefined;

/** The local date and time with its zone: "22 Nov 2026, 14:02:31 UTC". */
export function exactTime(ms: number): string {
  return exact().format(ms);
}

/** The language of `exactTime`, for the attribute `lang`. */
export function exactTimeLanguage(): string {
  return exact().resolvedOptions().locale;
}

/** The local time of day, to the second: "14:02:31". */
export function timeOfDay(ms: number): string {
  clockFormat ??= new Intl.DateTimeFormat(languages(), { timeStyle: "medium" });
  return clockFormat.format(ms);
}

/** A whole number: "1,200". */
export function wholeNumber(value: number): string {
  numberFormat ??= new Intl.NumberFormat(languages());
  return numberFormat.format(value);
}

function exact(): Intl.DateTimeFormat {
  exactFormat ??= new Intl.DateTimeFormat(languages(), { dateStyle: "medium", timeStyle: "long" });
  return exactFormat;
}

/**
 * The languages that the browser asks for, the best first. Dates, times and numbers are written in
 * their way. Empty, which means the browser's own language, if it names one that does not exist.
 */
export function languages(): string[] {
  try {
    return Intl.getCanonicalLocales(navigator.languages);
  } catch {
    return [];
  }
}
