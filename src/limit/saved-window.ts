import { z } from "zod";
import { bounds } from "../bounds.ts";
import type { PackedTimes } from "./sliding-log.ts";

/** What the logs of a limiter counted when they were saved. */
export interface SavedWindow {
  readonly savedUnixMs: number;
  /** Each id once. The log that accepted something last comes first. The store has these names. */
  readonly logs: Iterable<{ readonly id: string; readonly moments: PackedTimes }>;
}

/**
 * The window as texts that a store can keep, within the bounds `savedPagesMax` and
 * `savedPageCharactersMax`. Logs that have no room are left out, those idle for longest first;
 * `leftOut` is their number.
 */
export function writeWindow(saved: SavedWindow): { pages: string[]; leftOut: number } {
  const { savedUnixMs, logs } = saved;
  const [head, tail] = [`{"savedUnixMs":${savedUnixMs},"logs":[`, "]}"];
  const pages: string[] = [];
  let page = head;
  let leftOut = 0;
  for (const log of logs) {
    const text = JSON.stringify(log);
    if (page.length + 1 + text.length + tail.length > bounds.savedPageCharactersMax) {
      pages.push(page + tail);
      page = head;
    }
    if (pages.length === bounds.savedPagesMax) leftOut++;
    else page += page === head ? text : `,${text}`;
  }
  if (page !== head) pages.push(page + tail);
  return { pages, leftOut };
}

/**
 * Reads what `writeWindow` wrote. Of the pages of several stops only those of the last one count:
 * it had taken up what the stops before had kept. Throws where a page is damaged.
 */
export function readWindow(pages: readonly string[]): SavedWindow {
  const read = pages.map((text) => pageShape.parse(JSON.parse(text)));
  const savedUnixMs = Math.max(0, ...read.map((page) => page.savedUnixMs));
  const logs = read.filter((page) => page.savedUnixMs === savedUnixMs).flatMap((page) => page.logs);
  if (new Set(logs.map(({ id }) => id)).size < logs.length) throw new Error("two logs of one id");
  return { savedUnixMs, logs };
}

/** What a time of the wall clock may lack of the true one. */
export const wallClockTickMs = 1;

const pageShape = z.strictObject({
  savedUnixMs: z.number().nonnegative(),
  // Fleets of older versions kept pages, too, and marked them so.
  isShared: z.boolean().optional(),
  logs: z.array(z.strictObject({ id: z.string().min(1), moments: z.custom<PackedTimes>(arePackedTimes) })),
});

/** A check by hand: a schema of each number would take seconds where there are millions. */
function arePackedTimes(value: unknown): boolean {
  if (!Array.isArray(value) || value.length % 2 !== 0) return false;
  const numbers: readonly unknown[] = value;
  let lastAge = Number.POSITIVE_INFINITY;
  let total = 0;
  for (let n = 0; n < numbers.length; n += 2) {
    const [age, count] = [numbers[n], numbers[n + 1]];
    if (!isWhole(age) || !isWhole(count) || age >= lastAge) return false;
    lastAge = age;
    total += count;
  }
  return total <= bounds.savedRequestsPerLogMax;
}

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}
