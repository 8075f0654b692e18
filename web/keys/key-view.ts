import type { Key } from "../api/messages.ts";
import { bounds } from "../bounds.ts";
import { expiryMs } from "./key-pages.ts";

/** Which of a team's keys the list shows, and in which order. */
export interface KeyView {
  /** Whether to show the keys that were revoked or have expired, in place of the active ones. */
  readonly past: boolean;
  /** What the person searches for; empty for all keys. */
  readonly query: string;
  /** Whether to show only the keys that were not used for `unusedMs`. */
  readonly unusedOnly: boolean;
  readonly sort: KeySort;
}

export interface KeySort {
  readonly by: "created" | "used" | "expires";
  readonly order: "ascending" | "descending";
}

export const firstView: KeyView = {
  past: false,
  query: "",
  unusedOnly: false,
  sort: { by: "created", order: "descending" },
};

/** True when the view leaves out keys that a person may expect. */
export function isNarrowed({ query, unusedOnly }: KeyView): boolean {
  return query !== "" || unusedOnly;
}

/**
 * The keys of the view in its order. Takes them newest first, and filters by use, but not by query:
 * the server did.
 */
export function arranged(keys: readonly Key[], { unusedOnly, sort }: KeyView, nowMs: number): Key[] {
  const kept = unusedOnly ? keys.filter((key) => isUnused(key, nowMs)) : [...keys];
  const { by, order } = sort;
  if (by !== "created") {
    // Keys that were never used come first, and those that never expire last. The sort keeps the
    // order of equal ones.
    const msOf = by === "used" ? lastUseMs : expiryMs;
    kept.reverse().sort((one, other) => msOf(one) - msOf(other) || 0);
  }
  return (order === "descending") === (by === "created") ? kept : kept.reverse();
}

/** True when the view needs keys that no page before the last may hold. */
export function needsAllPages({ past, unusedOnly, sort }: KeyView): boolean {
  return !past && (unusedOnly || sort !== firstView.sort);
}

/** True when the key had the time to be used and was not. */
function isUnused(key: Key, nowMs: number): boolean {
  const createMs = key.createTime === undefined ? nowMs : Date.parse(key.createTime);
  return nowMs - Math.max(lastUseMs(key), createMs) >= bounds.unusedMs;
}

function lastUseMs({ lastUseTime }: Key): number {
  return lastUseTime === undefined ? 0 : Date.parse(lastUseTime);
}
