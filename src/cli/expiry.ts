/** The end of a key as `--expires` names it: a time from now, a whole day, or a moment. */

import { systemClock } from "../base/clock.ts";
import { spanIn } from "./command-words.ts";
import { wrongUse } from "./failures.ts";
import { timeWords } from "./table.ts";

const minuteMs = 60_000;
/** Enough for a slow call, or for a clock that is a little behind the server's. */
const allowanceMs = 5_000;

/**
 * The end of a new key, in RFC 3339. The server takes a minute or more, and the call needs time to
 * get there, so the shortest span is made `allowanceMs` longer.
 */
export function readNewExpiry(text: string): string {
  return momentOf(text, minuteMs + allowanceMs);
}

/** The end that a key gets later, which may be at once. */
export function readExpiry(text: string): string {
  return momentOf(text, 0);
}

/** What is said of a key's end: in this machine's zone where `--expires` names a day of it. */
export function expiryWords(expireTime: string, given?: string): string {
  if (given === undefined || !dayForm.test(given)) return `It expires at ${timeWords(expireTime)}.`;
  const ms = Date.parse(expireTime);
  return `It expires at ${localTime(ms)}${offsetAt(ms)} (${Intl.DateTimeFormat().resolvedOptions().timeZone}).`;
}

const dayForm = /^\d{4}-\d\d-\d\d$/;
const timeForm = /^(\d{4}-\d\d-\d\d)(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(Z|[+-]\d\d:\d\d)?)?$/;

function momentOf(text: string, spanMsMin: number): string {
  const span = spanIn(text);
  if (span !== undefined && span > 0) {
    return new Date(systemClock.unixMs() + Math.max(span, spanMsMin)).toISOString();
  }
  const [, day, zone] = timeForm.exec(text) ?? [];
  const timeMs = Date.parse(text);
  if (day === undefined || Number.isNaN(timeMs)) {
    throw wrongUse(
      "--expires must be a time from now in days, hours or minutes, like 90d, 12h or 30m, or a date, like 2027-01-31.",
    );
  }
  if (!isDay(day)) throw wrongUse(`--expires must be a day that exists: ${day} does not.`);
  if (text === day) return new Date(lastSecondOf(day)).toISOString();
  if (zone === undefined) {
    const here = `${text}${offsetAt(timeMs)}`;
    throw wrongUse(`--expires ${text} has no zone: write ${here} for this machine's, or ${text}Z for UTC.`);
  }
  return new Date(timeMs).toISOString();
}

/** `Date.parse` takes the 31st of every month, and goes on into the next one. */
function isDay(day: string): boolean {
  return new Date(Date.parse(day)).toISOString().startsWith(day);
}

/**
 * The last second of a day in this machine's zone: the one before the next day begins. Where clocks
 * are set back at midnight, a day has two seconds that are called 23:59:59.
 */
function lastSecondOf(text: string): number {
  const [year = 0, month = 0, day = 0] = text.split("-").map(Number);
  return new Date(year, month - 1, day + 1).getTime() - 1_000;
}

/** As RFC 3339 writes it, without the offset. */
function localTime(ms: number): string {
  return new Date(ms - new Date(ms).getTimezoneOffset() * minuteMs).toISOString().slice(0, 19);
}

/** The offset of this machine's zone at a moment, such as +02:00. */
function offsetAt(ms: number): string {
  const minutes = -new Date(ms).getTimezoneOffset();
  const [hour, minute] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  const digits = (number: number) => String(number).padStart(2, "0");
  return `${minutes < 0 ? "-" : "+"}${digits(hour)}:${digits(minute)}`;
}
