import type { Key } from "../api/messages.ts";
import { bounds } from "../bounds.ts";
import { expiryMs, type KeyCounts } from "./key-pages.ts";

/** Which of a team's keys the list shows, and in which order. */
export interface KeyView {
  /** Whether to show the keys that were revoked or have expired, in place of the active ones. */
  readonly past: boolean;
  /** What the person searches for; empty for all keys. */
  readonly query: string;
  /** Whether to show only the keys that were not used for `unusedMs`. */
  readonly unusedOnly: boolean;
  /** The order of the active keys. */
  readonly sort: KeySort;
  /** The order of the past ones. */
  readonly pastSort: KeySort;
}

export interface KeySort {
  readonly by: "created" | "used" | "expires" | "ended";
  readonly order: "ascending" | "descending";
}

export const firstView: KeyView = {
  past: false,
  query: "",
  unusedOnly: false,
  sort: { by: "created", order: "descending" },
  pastSort: { by: "ended", order: "descending" },
};

/** The order in which Keyrun lists keys. */
export const listedOrder = firstView.sort;

/** The order of the keys that the view shows. */
export function sortOf({ past, sort, pastSort }: KeyView): KeySort {
  return past ? pastSort : sort;
}

/** True when the view leaves out keys that a person may expect. */
export function isNarrowed({ query, unusedOnly }: KeyView): boolean {
  return query !== "" || unusedOnly;
}

/**
 * The keys of the view in its order. Takes them newest first, and filters by use, but not by query:
 * the server did.
 */
export function arranged(keys: readonly Key[], view: KeyView, nowMs: number): Key[] {
  const kept = view.unusedOnly ? keys.filter((key) => isUnused(key, nowMs)) : [...keys];
  const { by, order } = sortOf(view);
  if (by !== "created") {
    // Keys that were never used come first, and those that never expire last. The sort keeps the
    // order of equal ones.
    const msOf = { used: lastUseMs, expires: expiryMs, ended: endMs }[by];
    kept.reverse().sort((one, other) => msOf(one) - msOf(other) || 0);
  }
  return (order === "descending") === (by === "created") ? kept : kept.reverse();
}

/** True when the view needs keys that no page before the last may hold. */
export function needsAllPages(view: KeyView, counts: KeyCounts): boolean {
  if (!canReadAll(view, counts)) return false;
  return view.unusedOnly || sortOf(view) !== listedOrder;
}

/**
 * True when the page can have the view's keys in any order. Past keys have no bound, so those of a
 * team with very many are in the order of Keyrun, and the person reads on by hand.
 */
export function isSortable(view: KeyView, counts: KeyCounts, more: boolean): boolean {
  return !more || canReadAll(view, counts);
}

function canReadAll({ past }: KeyView, counts: KeyCounts): boolean {
  return !past || counts.past <= bounds.pastKeysSortedMax;
}

/** True when the key had the time to be used and was not. */
function isUnused(key: Key, nowMs: number): boolean {
  const createMs = key.createTime === undefined ? nowMs : Date.parse(key.createTime);
  return nowMs - Math.max(lastUseMs(key), createMs) >= bounds.unusedMs;
}

function endMs({ revokeTime, expireTime }: Key): number {
  return Date.parse(revokeTime ?? expireTime ?? "") || 0;
}

function lastUseMs({ lastUseTime }: Key): number {
  return lastUseTime === undefined ? 0 : Date.parse(lastUseTime);
}
