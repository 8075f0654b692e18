/**
 * The languages that the browser asks for, the best first. Dates, times and numbers are written in
 * their way. Empty, which means the browser's own language, if it names one that does not exist.
 */
function preferredLanguages(): string[] {
  try {
    return Intl.getCanonicalLocales(navigator.languages);
  } catch {
    return [];
  }
}

const languages = preferredLanguages();
const numberFormat = new Intl.NumberFormat(languages);
const exactFormat = new Intl.DateTimeFormat(languages, { dateStyle: "medium", timeStyle: "long" });
const clockFormat = new Intl.DateTimeFormat(languages, { timeStyle: "medium" });

/** The language of `exactTime`, for the attribute `lang`. */
export const exactTimeLanguage: string = exactFormat.resolvedOptions().locale;

/** The local date and time with its zone: "22 Nov 2026, 14:02:31 UTC". */
export function exactTime(ms: number): string {
  return exactFormat.format(ms);
}

/** The local time of day, to the second: "14:02:31". */
export function timeOfDay(ms: number): string {
  return clockFormat.format(ms);
}

/** A whole number: "1,200". */
export function wholeNumber(value: number): string {
  return numberFormat.format(value);
}
