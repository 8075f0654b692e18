import type { RateLimit } from "../api/messages.ts";
import { timeOfDay, wholeNumber } from "../time/local-format.ts";

const windowS = 60;
export const nearShare = 0.8;

/** How much of a limit is used: "near" from 80 %, "reached" at 100 %. */
export type UsageTone = "calm" | "near" | "reached";

export function usageTone(rateLimit: RateLimit): UsageTone {
  const { limit = 0 } = rateLimit;
  const used = usedRequests(rateLimit);
  if (used >= limit) return "reached";
  return used >= limit * nearShare ? "near" : "calm";
}

/** The requests that count now: from 0 to the limit. */
export function usedRequests({ limit = 0, remaining = 0 }: RateLimit): number {
  return Math.min(Math.max(limit - remaining, 0), limit);
}

/** "23 of 60 used". */
export function usedInWords(rateLimit: RateLimit): string {
  return `${wholeNumber(usedRequests(rateLimit))} of ${wholeNumber(rateLimit.limit ?? 0)} used`;
}

/**
 * When requests work again, at the limit: "next request in 12 s". Empty below it. Never more than
 * 60 s, the length of the window, even if the clocks of server and browser differ.
 */
export function nextRequestInWords(rateLimit: RateLimit, nowMs: number): string {
  if (rateLimit.resetTime === undefined || usageTone(rateLimit) !== "reached") return "";
  const seconds = Math.min(Math.ceil((Date.parse(rateLimit.resetTime) - nowMs) / 1_000), windowS);
  return seconds < 1 ? "next request now" : `next request in ${seconds} s`;
}

/** The words for a limit that is reached, with the local time at which requests work again. */
export function limitReachedInWords(resetMs: number): string {
  return `Limit reached; requests get 429 until ${timeOfDay(resetMs)}`;
}

/** "60 requests per minute". */
export function limitInWords(limit: number): string {
  return `${requestCount(limit)} per minute`;
}

/** "1,204 requests". */
export function requestCount(count: number): string {
  return `${wholeNumber(count)} ${count === 1 ? "request" : "requests"}`;
}
