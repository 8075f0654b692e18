import type { Key } from "../../api/messages.ts";

const hourS = 3_600;

/** How long an old key may go on beside the one that replaces it, in seconds. */
export const overlaps = [
  { overlapS: 0, words: "Not at all" },
  { overlapS: hourS, words: "For 1 hour" },
  { overlapS: 24 * hourS, words: "For 24 hours" },
  { overlapS: 7 * 24 * hourS, words: "For 7 days" },
  { overlapS: 30 * 24 * hourS, words: "For 30 days" },
] as const;

export const usualOverlapS = 24 * hourS;

/** When the old key ends: after the overlap, or at its own expiry if that is earlier. */
export function oldKeyEndMs({ expireTime }: Key, overlapS: number, nowMs: number): number {
  const ownMs = expireTime === undefined ? Number.POSITIVE_INFINITY : Date.parse(expireTime);
  return Math.min(nowMs + overlapS * 1_000, ownMs);
}
