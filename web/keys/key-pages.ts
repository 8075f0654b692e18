import type { InfiniteData } from "@tanstack/react-query";
import type { Key, ListKeysResponse } from "../api/messages.ts";

/**
 * The pages of keys that were read so far, newest first. A change makes new pages and leaves the
 * old ones as they are.
 */
export type KeyPages = InfiniteData<ListKeysResponse>;

export function keysOf(pages: KeyPages): Key[] {
  return pages.pages.flatMap(({ keys = [] }) => keys);
}

/** How many keys a team has, and how many active ones it may have. */
export interface KeyCounts {
  readonly active: number;
  readonly activeMax: number;
  /** The keys that were revoked or have expired. */
  readonly past: number;
}

/** The counts of all of the team's keys, by the page that was read last. */
export function keyCounts(pages: KeyPages): KeyCounts {
  const last = pages.pages.at(-1);
  return {
    active: last?.activeKeyCount ?? 0,
    activeMax: last?.activeKeyCountMax ?? 0,
    past: last?.revokedKeyCount ?? 0,
  };
}

/** True unless the key was revoked or has expired. Both are for ever. */
export function isActive(key: Key): boolean {
  return key.state !== "KEY_STATE_REVOKED" && key.state !== "KEY_STATE_EXPIRED";
}

/**
 * Of the active keys whose time is over by this clock, the one that ends first; undefined if there
 * is none. While Keyrun still accepts it, it accepts the others as well.
 */
export function firstDue(pages: KeyPages, nowMs: number): Key | undefined {
  const due = keysOf(pages).filter((key) => isActive(key) && expiryMs(key) <= nowMs);
  return due.sort((one, other) => expiryMs(one) - expiryMs(other))[0];
}

/** When the key expires; infinity if it does not. */
export function expiryMs({ expireTime }: Key): number {
  return expireTime === undefined ? Number.POSITIVE_INFINITY : Date.parse(expireTime);
}

/**
 * The keys to show, newest first: the past ones, or the active ones. Departing keys stay in their
 * places, even when the list was read again without them.
 */
export function visibleKeys(pages: KeyPages, past: boolean, departing: ReadonlyMap<string, Key>): Key[] {
  const keys = keysOf(pages).filter((key) => isActive(key) !== past);
  const gone = [...departing.values()].filter((key) => !keys.some((one) => one.id === key.id));
  return gone.length === 0 ? keys : [...keys, ...gone].sort(newestFirst);
}

/** The order of ListKeys. */
function newestFirst(one: Key, other: Key): number {
  return createMs(other) - createMs(one) || (one.id < other.id ? 1 : -1);
}

function createMs(key: Key): number {
  return key.createTime === undefined ? 0 : Date.parse(key.createTime);
}

/**
 * Adds a new key at the head of all of a team's keys. Returns the same pages when it is there
 * already. A key and the one that replaces it count as one.
 */
export function withCreated(pages: KeyPages, key: Key): KeyPages {
  const [first, ...rest] = pages.pages;
  if (first === undefined || find(pages, key.id) !== undefined) return pages;
  const all = [{ ...first, keys: [key, ...(first.keys ?? [])] }, ...rest];
  return { ...pages, pages: all.map(counted(hasActiveTwin(pages, key) ? 0 : 1, 0)) };
}

/**
 * Replaces a key by its changed form, which may be its last. Returns the same pages when it is past
 * there already, or not there.
 */
export function withChanged(pages: KeyPages, key: Key): KeyPages {
  const known = find(pages, key.id);
  if (known === undefined || !isActive(known)) return pages;
  const changed = withUsed(withKey(pages, key), known);
  if (isActive(key)) return changed;
  return { ...changed, pages: changed.pages.map(counted(hasActiveTwin(pages, key) ? 0 : -1, 1)) };
}

/**
 * Gives a key its last use. Returns the same pages when a later one is known there, or the key is
 * not there.
 */
export function withUsed(pages: KeyPages, { id, lastUseTime }: Key): KeyPages {
  const known = find(pages, id);
  if (known === undefined || lastUseTime === undefined || lastUseMs(known) >= Date.parse(lastUseTime)) {
    return pages;
  }
  return withKey(pages, { ...known, lastUseTime });
}

function withKey(pages: KeyPages, key: Key): KeyPages {
  const replaced = pages.pages.map((page) => ({
    ...page,
    keys: (page.keys ?? []).map((one) => (one.id === key.id ? key : one)),
  }));
  return { ...pages, pages: replaced };
}

function lastUseMs({ lastUseTime }: Key): number {
  return lastUseTime === undefined ? 0 : Date.parse(lastUseTime);
}

function find(pages: KeyPages, keyId: string): Key | undefined {
  return keysOf(pages).find((key) => key.id === keyId);
}

/** True when the key that this one replaces, or that replaces it, is there and active. */
function hasActiveTwin(pages: KeyPages, { replacesKeyId, replacedByKeyId }: Key): boolean {
  return keysOf(pages).some(
    (key) => isActive(key) && (key.id === replacesKeyId || key.id === replacedByKeyId),
  );
}

function counted(active: number, past: number): (page: ListKeysResponse) => ListKeysResponse {
  return (page) => ({
    ...page,
    activeKeyCount: (page.activeKeyCount ?? 0) + active,
    revokedKeyCount: (page.revokedKeyCount ?? 0) + past,
  });
}
