import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { fail } from "../refusal/refusal.ts";
import { keyLifeBounds } from "./key-life-bounds.ts";

/** The expiry of a new key; null: it does not expire. Refuses one that is too near or too far. */
export function readNewExpireTime(time: Timestamp | undefined, nowMs: number): number | null {
  if (!time) return null;
  const timeMs = msOf(time);
  if (timeMs >= nowMs + keyLifeBounds.expiryMsMin && isNear(timeMs, nowMs)) return timeMs;
  throw wrong("expire_time must be at least a minute and at most 10 years from now.");
}

/** The expiry that a key gets later. It may be past. */
export function readExpireTime(time: Timestamp | undefined, nowMs: number): number {
  if (!time) throw wrong("expire_time is required, because update_mask names it.");
  const timeMs = msOf(time);
  if (isNear(timeMs, nowMs)) return Math.max(timeMs, 0);
  throw wrong("expire_time must be at most 10 years from now.");
}

/** Rounded down: the key ends no later than was asked. */
function msOf({ seconds, nanos }: Timestamp): number {
  return Number(seconds) * 1_000 + Math.floor(nanos / 1e6);
}

function isNear(timeMs: number, nowMs: number): boolean {
  return timeMs <= nowMs + keyLifeBounds.expiryMsMax;
}

function wrong(problem: string) {
  return fail("INVALID_ARGUMENT", { param: "expire_time", problem });
}
