import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { KeySchema, KeyState } from "#gen/keyrun/v1/key_pb.ts";
import type { Key } from "../../../web/api/messages.ts";
import {
  firstDue,
  type KeyPages,
  keyCounts,
  keysOf,
  visibleKeys,
  withChanged,
  withCreated,
  withUsed,
} from "../../../web/keys/key-pages.ts";
import { sent } from "../sent-message.ts";

const ids = (pages: KeyPages) => keysOf(pages).map((key) => key.id);

test("a created key heads the list and is counted once, however often it is reported", () => {
  const pages = withCreated(pagesOf(["b", "a"], ["z"]), key("c"));
  expect(ids(pages)).toEqual(["c", "b", "a", "z"]);
  expect(keyCounts(pages).active).toBe(4);
  expect(withCreated(pages, key("c"))).toBe(pages);
  expect(withCreated(pages, key("z"))).toBe(pages);
});

test("a revoked key stays in its place, with who revoked it, and is counted as revoked", () => {
  const before = pagesOf(["b", "a"], ["z"]);
  const pages = withChanged(before, { ...key("z", KeyState.REVOKED), revokedBy: "lin@example.com" });
  expect(ids(pages)).toEqual(["b", "a", "z"]);
  expect(keysOf(pages).at(-1)?.revokedBy).toBe("lin@example.com");
  expect(keyCounts(pages)).toMatchObject({ active: 2, past: 1 });
  expect(keyCounts(before)).toMatchObject({ active: 3, past: 0 });
});

test("a revocation that is reported again, or of a key that was not read, changes nothing", () => {
  const pages = withChanged(pagesOf(["b", "a"]), key("a", KeyState.REVOKED));
  expect(withChanged(pages, key("a", KeyState.REVOKED))).toBe(pages);
  expect(withChanged(pages, key("elsewhere", KeyState.REVOKED))).toBe(pages);
});

test("a changed key stays in its place with a later use that is known, and an expired one is counted as past", () => {
  const used = withUsed(pagesOf(["b", "a"]), { ...key("a"), lastUseTime: timeOf(2_000) });
  const renamed = withChanged(used, { ...key("a"), label: "renamed" });
  expect(ids(renamed)).toEqual(["b", "a"]);
  expect(keysOf(renamed)[1]).toMatchObject({ label: "renamed", lastUseTime: timeOf(2_000) });
  expect(keyCounts(renamed)).toMatchObject({ active: 2, past: 0 });
  const over = withChanged(renamed, key("a", KeyState.EXPIRED));
  expect(keyCounts(over)).toMatchObject({ active: 1, past: 1 });
  expect(withChanged(over, key("a"))).toBe(over);
});

test("of the active keys whose time is over, the page asks for the one that ends first", () => {
  const until = (id: string, ms: number, state?: KeyState) => ({
    ...key(id, state),
    expireTime: timeOf(ms),
  });
  const pages = pagesOf([]);
  const past = [until("expired", 1, KeyState.EXPIRED), until("revoked", 1, KeyState.REVOKED)];
  const active = [until("over", 5_000), until("first", 4_000), until("ahead", 6_000), key("never")];
  const withKeys = { ...pages, pages: pages.pages.map((page) => ({ ...page, keys: [...past, ...active] })) };
  expect(firstDue(withKeys, 5_000)?.id).toBe("first");
  expect(firstDue(withKeys, 4_000)?.id).toBe("first");
  expect(firstDue(withKeys, 3_999)).toBe(undefined);
});

test("a key and the one that replaces it count as one, in whichever order their changes come", () => {
  const old = { ...key("a"), replacedByKeyId: "c" };
  const successor = { ...key("c"), replacesKeyId: "a" };
  const over = { ...old, state: "KEY_STATE_REVOKED" } as Key;
  const before = pagesOf(["b", "a"]);
  const both = withChanged(withCreated(before, successor), old);
  expect(keyCounts(both)).toMatchObject({ active: 2, past: 0 });
  expect(keyCounts(withChanged(both, over))).toMatchObject({ active: 2, past: 1 });
  expect(keyCounts(withCreated(withChanged(before, over), successor))).toMatchObject({ active: 2, past: 1 });
});

test("a use changes the time of its key alone, and never sets it back", () => {
  const before = pagesOf(["b", "a"], ["z"]);
  const usedAt = (id: string, ms: number) => ({ ...key(id), lastUseTime: timeOf(ms) });
  const pages = withUsed(before, usedAt("a", 2_000));
  expect(keysOf(pages).map(({ lastUseTime }) => lastUseTime)).toEqual([undefined, timeOf(2_000), undefined]);
  expect(keyCounts(pages)).toEqual(keyCounts(before));
  expect(withUsed(pages, usedAt("a", 2_000))).toBe(pages);
  expect(withUsed(pages, usedAt("a", 1_000))).toBe(pages);
  expect(withUsed(pages, usedAt("elsewhere", 3_000))).toBe(pages);
  expect(withUsed(pages, key("b"))).toBe(pages);
});

test("the counts are those of the page that was read last", () => {
  const pages = pagesOf(["b"], ["a"]);
  const [first, last] = pages.pages;
  const drifted = {
    ...pages,
    pages: [
      { ...first!, activeKeyCount: 9 },
      { ...last!, activeKeyCount: 7 },
    ],
  };
  expect(keyCounts(drifted)).toEqual({ active: 7, activeMax: 50, past: 0 });
});

test("past keys are shown alone when asked for, and departing ones once, in their places", () => {
  const revoked = (id: string, atMs: number) => created(id, atMs, KeyState.REVOKED);
  const keys = [created("d", 4), revoked("z", 2), created("b", 2), created("a", 1)];
  const pages = { pageParams: [""], pages: [{ keys }] };
  const seen = (past: boolean, ...departing: Key[]) =>
    visibleKeys(pages, past, new Map(departing.map((one) => [one.id, one]))).map(({ id }) => id);
  expect(seen(false)).toEqual(["d", "b", "a"]);
  expect(seen(true)).toEqual(["z"]);
  expect(seen(true, revoked("z", 2))).toEqual(["z"]);
  // In the list, no longer in the list, oldest, newest, and created in the same millisecond as
  // another.
  expect(seen(false, revoked("z", 2))).toEqual(["d", "z", "b", "a"]);
  expect(seen(false, revoked("c", 3))).toEqual(["d", "c", "b", "a"]);
  expect(seen(false, revoked("0", 0), revoked("e", 5))).toEqual(["e", "d", "b", "a", "0"]);
  expect(seen(false, revoked("bb", 2), revoked("aa", 2))).toEqual(["d", "bb", "b", "aa", "a"]);
});

const timeOf = (ms: number) => new Date(ms).toISOString();

function created(id: string, atMs: number, state: KeyState = KeyState.ACTIVE): Key {
  return sent(KeySchema, { id, state, createTime: timestampFromMs(atMs) });
}

function key(id: string, state: KeyState = KeyState.ACTIVE): Key {
  return sent(KeySchema, { id, state });
}

function pagesOf(...pages: string[][]): KeyPages {
  const activeKeyCount = pages.flat().length;
  return {
    pageParams: pages.map(() => ""),
    pages: pages.map((page) => ({
      keys: page.map((id) => key(id)),
      activeKeyCount,
      activeKeyCountMax: 50,
    })),
  };
}
