import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { RateLimit } from "#gen/keyrun/v1/rate_limit_pb.ts";
import { timeOfDay } from "../time/relative-time.ts";

const windowS = 60;
const nearShare = 0.8;

/** How much of a limit is used: "near" from 80 %, "reached" at 100 %. */
export type UsageTone = "calm" | "near" | "reached";

export function usageTone({ limit, remaining }: RateLimit): UsageTone {
  if (remaining <= 0) return "reached";
  return limit - remaining >= limit * nearShare ? "near" : "calm";
}

/** "37 of 60 left". */
export function leftInWords({ limit, remaining }: RateLimit): string {
  return `${count.format(remaining)} of ${count.format(limit)} left`;
}

/**
 * When the next slot opens; empty when no slot is taken. At most 60 s, the length of the window.
 */
export function nextSlotInWords(rateLimit: RateLimit, nowMs: number): string {
  if (rateLimit.resetTime === undefined || rateLimit.remaining >= rateLimit.limit) return "";
  const resetMs = timestampMs(rateLimit.resetTime);
  if (usageTone(rateLimit) === "reached") return limitReachedInWords(resetMs);
  const seconds = Math.min(Math.ceil((resetMs - nowMs) / 1_000), windowS);
  return seconds < 1 ? "next request frees up now" : `next request frees up in ${seconds} s`;
}

/** The words for a limit that is reached, with the local time at which requests work again. */
export function limitReachedInWords(resetMs: number): string {
  return `Limit reached; requests get 429 until ${timeOfDay(resetMs)}`;
}

/** "60 requests per minute". */
export function limitInWords(limit: number): string {
  return `${count.format(limit)} ${limit === 1 ? "request" : "requests"} per minute`;
}

const count = new Intl.NumberFormat("en");
