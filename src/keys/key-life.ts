import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { fail } from "../refusal/refusal.ts";

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

/** The bounds of a key's life that are not settings. */
export const keyLifeBounds = {
  /** How far away the expiry of a new key is, at least and at most: 10 years. */
  expiryMsMin: 60_000,
  expiryMsMax: 3_653 * 24 * 60 * 60 * 1_000,
  /** How long a replaced key may go on: 30 days. */
  overlapMsMax: 30 * 24 * 60 * 60 * 1_000,
  /**
   * After this time the rotation of a new key that can't be used yet was cut off, and is completed
   * or taken back. One that is only slow is not harmed: it is tried again.
   */
  pendingMsMax: 5_000,
  /** How often a change of a key is tried again because another change came first. */
  changeTriesMax: 20,
  /** How many successors of a key are read to tell which one may be rotated in its place. */
  successorsReadMax: 20,
  /** How often keys whose expiry has come are marked. */
  sweepMs: 2_000,
  /** How often the keys that expire soon are counted, and up to which number. */
  countMs: 60_000,
  expiringKeysCountedMax: 10_000,
} as const;

/** Above every version that a stored key has. */
export const deletedKeyVersion = Number.MAX_SAFE_INTEGER;

/** The version of a successor that can be used. It is one lower while it is pending. */
export const successorVersion = 2;

/** Who revokes a key that nobody ever got. */
export const keyrunActor = "Keyrun";
