import { z } from "zod";
import { bounds } from "../bounds.ts";
import { agedBy, type Moments, newerOf, newestAge } from "./moments.ts";

/** What the logs of a limiter counted when they were saved. */
export interface SavedWindow {
  readonly savedUnixMs: number;
  /** Whether a fleet counted them, so that its Redis may have them still. */
  readonly isShared?: boolean;
  /** Each id once. The log that accepted something last comes first. */
  readonly logs: Iterable<{ readonly id: string; readonly moments: Moments }>;
}

/**
 * The window as texts that a store can keep, within the bounds `savedPagesMax` and
 * `savedPageCharactersMax`. Logs that have no room are left out, those idle for longest first;
 * `leftOut` is their number.
 */
export function writeWindow(saved: SavedWindow): { pages: string[]; leftOut: number } {
  const { savedUnixMs, isShared = false, logs } = saved;
  const [head, tail] = [`{"savedUnixMs":${savedUnixMs},${isShared ? `"isShared":true,` : ""}"logs":[`, "]}"];
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
 * Reads what `writeWindow` wrote, of one stop or of several. Of a team that several counted, the
 * nth newest request is the newer of theirs: they counted the same ones, and one may have counted
 * more. Throws where a page is damaged.
 */
export function readWindow(pages: readonly string[]): SavedWindow {
  const read = pages.map((text) => pageShape.parse(JSON.parse(text)));
  const savedUnixMs = Math.max(0, ...read.map((page) => page.savedUnixMs));
  const merged = new Map<string, Moments>();
  for (const page of read) {
    if (new Set(page.logs.map(({ id }) => id)).size < page.logs.length) throw new Error("two logs of one id");
    const laterMs = Math.max(0, savedUnixMs - page.savedUnixMs - wallClockTickMs);
    for (const { id, moments } of page.logs) {
      const aged = agedBy(moments, laterMs);
      const other = merged.get(id);
      merged.set(id, other ? newerOf(other, aged) : aged);
    }
  }
  const logs = [...merged].map(([id, moments]) => ({ id, moments }));
  logs.sort((one, other) => newestAge(one.moments) - newestAge(other.moments));
  const isShared = read.length > 0 && read.every((page) => page.isShared);
  return { savedUnixMs, ...(isShared && { isShared }), logs };
}

/** What a time of the wall clock may lack of the true one. */
export const wallClockTickMs = 1;

const pageShape = z.strictObject({
  savedUnixMs: z.number().nonnegative(),
  isShared: z.boolean().optional(),
  logs: z.array(z.strictObject({ id: z.string().min(1), moments: z.custom<Moments>(areMoments) })),
});

/** A check by hand: a schema of each number would take seconds where there are millions. */
function areMoments(value: unknown): boolean {
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
