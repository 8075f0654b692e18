import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { type Key, KeySchema, KeyState } from "#gen/keyrun/v1/key_pb.ts";
import { ListKeysResponseSchema } from "#gen/keyrun/v1/key_service_pb.ts";
import {
  type KeyPages,
  keyCounts,
  keysOf,
  visibleKeys,
  withCreated,
  withRevoked,
} from "../../../web/keys/key-pages.ts";

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
  const pages = withRevoked(before, { ...key("z", KeyState.REVOKED), revokedBy: "lin@example.com" });
  expect(ids(pages)).toEqual(["b", "a", "z"]);
  expect(keysOf(pages).at(-1)?.revokedBy).toBe("lin@example.com");
  expect(keyCounts(pages)).toMatchObject({ active: 2, revoked: 1 });
  expect(keyCounts(before)).toMatchObject({ active: 3, revoked: 0 });
});

test("a revocation that is reported again, or of a key that was not read, changes nothing", () => {
  const pages = withRevoked(pagesOf(["b", "a"]), key("a", KeyState.REVOKED));
  expect(withRevoked(pages, key("a", KeyState.REVOKED))).toBe(pages);
  expect(withRevoked(pages, key("elsewhere", KeyState.REVOKED))).toBe(pages);
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
  expect(keyCounts(drifted)).toEqual({ active: 7, activeMax: 50, revoked: 0 });
});

test("revoked keys are shown when asked for, and departing ones once, in their places", () => {
  const revoked = (id: string, atMs: number) => created(id, atMs, KeyState.REVOKED);
  const keys = [created("d", 4), revoked("z", 2), created("b", 2), created("a", 1)];
  const pages = { pageParams: [""], pages: [create(ListKeysResponseSchema, { keys })] };
  const seen = (showRevoked: boolean, ...departing: Key[]) =>
    visibleKeys(pages, showRevoked, new Map(departing.map((one) => [one.id, one]))).map(({ id }) => id);
  expect(seen(false)).toEqual(["d", "b", "a"]);
  expect(seen(true)).toEqual(["d", "z", "b", "a"]);
  expect(seen(true, revoked("z", 2))).toEqual(["d", "z", "b", "a"]);
  // In the list, no longer in the list, oldest, newest, and created in the same millisecond as
  // another.
  expect(seen(false, revoked("z", 2))).toEqual(["d", "z", "b", "a"]);
  expect(seen(false, revoked("c", 3))).toEqual(["d", "c", "b", "a"]);
  expect(seen(false, revoked("0", 0), revoked("e", 5))).toEqual(["e", "d", "b", "a", "0"]);
  expect(seen(false, revoked("bb", 2), revoked("aa", 2))).toEqual(["d", "bb", "b", "aa", "a"]);
});

function created(id: string, atMs: number, state: Key["state"] = KeyState.ACTIVE): Key {
  return create(KeySchema, { id, state, createTime: timestampFromMs(atMs) });
}

function key(id: string, state: Key["state"] = KeyState.ACTIVE): Key {
  return create(KeySchema, { id, state });
}

function pagesOf(...pages: string[][]): KeyPages {
  const activeKeyCount = pages.flat().length;
  return {
    pageParams: pages.map(() => ""),
    pages: pages.map((page) =>
      create(ListKeysResponseSchema, {
        keys: page.map((id) => key(id)),
        activeKeyCount,
        activeKeyCountMax: 50,
      }),
    ),
  };
}
