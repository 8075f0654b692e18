import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { InfiniteData } from "@tanstack/react-query";
import { type Key, KeyState } from "#gen/keyrun/v1/key_pb.ts";
import type { ListKeysResponse } from "#gen/keyrun/v1/key_service_pb.ts";

/**
 * The pages of keys that were read so far, newest first. A change makes new pages and leaves the
 * old ones as they are.
 */
export type KeyPages = InfiniteData<ListKeysResponse>;

export function keysOf(pages: KeyPages): Key[] {
  return pages.pages.flatMap((page) => page.keys);
}

/** How many keys a team has, and how many active ones it may have. */
export interface KeyCounts {
  readonly active: number;
  readonly activeMax: number;
  readonly revoked: number;
}

/** The counts of all of the team's keys, by the page that was read last. */
export function keyCounts(pages: KeyPages): KeyCounts {
  const last = pages.pages.at(-1);
  return {
    active: last?.activeKeyCount ?? 0,
    activeMax: last?.activeKeyCountMax ?? 0,
    revoked: last?.revokedKeyCount ?? 0,
  };
}

export function isActive(key: Key): boolean {
  return key.state !== KeyState.REVOKED;
}

/**
 * The keys to show, newest first. Revoked keys are left out unless `showRevoked`. Departing keys
 * stay in their places, even when the list was read again without them.
 */
export function visibleKeys(
  pages: KeyPages,
  showRevoked: boolean,
  departing: ReadonlyMap<string, Key>,
): Key[] {
  const keys = keysOf(pages).filter((key) => showRevoked || isActive(key));
  const gone = [...departing.values()].filter((key) => !keys.some((one) => one.id === key.id));
  return gone.length === 0 ? keys : [...keys, ...gone].sort(newestFirst);
}

/** The order of ListKeys. */
function newestFirst(one: Key, other: Key): number {
  return createMs(other) - createMs(one) || (one.id < other.id ? 1 : -1);
}

function createMs(key: Key): number {
  return key.createTime === undefined ? 0 : timestampMs(key.createTime);
}

/**
 * Adds a new key at the head of all of a team's keys. Returns the same pages when it is there
 * already.
 */
export function withCreated(pages: KeyPages, key: Key): KeyPages {
  const [first, ...rest] = pages.pages;
  if (first === undefined || find(pages, key.id) !== undefined) return pages;
  return { ...pages, pages: [{ ...first, keys: [key, ...first.keys] }, ...rest].map(counted(1)) };
}

/**
 * Replaces a key by its revoked form. Returns the same pages when it is revoked there already, or
 * not there.
 */
export function withRevoked(pages: KeyPages, key: Key): KeyPages {
  const known = find(pages, key.id);
  if (known === undefined || !isActive(known)) return pages;
  const replaced = pages.pages.map((page) => ({
    ...page,
    keys: page.keys.map((one) => (one.id === key.id ? key : one)),
  }));
  return { ...pages, pages: replaced.map(counted(-1)) };
}

function find(pages: KeyPages, keyId: string): Key | undefined {
  return keysOf(pages).find((key) => key.id === keyId);
}

/** One more active key, or one that is revoked now. */
function counted(change: 1 | -1): (page: ListKeysResponse) => ListKeysResponse {
  return (page) => ({
    ...page,
    activeKeyCount: page.activeKeyCount + change,
    revokedKeyCount: page.revokedKeyCount + (change < 0 ? 1 : 0),
  });
}
