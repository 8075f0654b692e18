import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { KeySchema } from "#gen/keyrun/v1/key_pb.ts";
import type { Key } from "../../../web/api/messages.ts";
import { bounds } from "../../../web/bounds.ts";
import {
  arranged,
  firstView,
  isSortable,
  type KeySort,
  type KeyView,
  needsAllPages,
} from "../../../web/keys/key-view.ts";
import { sent } from "../sent-message.ts";

const nowMs = 1_700_000_000_000;
const longAgoMs = nowMs - bounds.unusedMs;

test("the list is sorted by creation, last use or expiry; a key never used counts as the least recent, and one that never expires as the last", () => {
  const keys = [
    key("new", { createMs: nowMs, expireMs: nowMs + 9 }),
    key("busy", { createMs: nowMs - 1, useMs: nowMs }),
    key("idle", { createMs: nowMs - 2, useMs: nowMs - 9, expireMs: nowMs + 1 }),
    key("old", { createMs: nowMs - 3 }),
  ];
  const sorted = (sort: KeySort) => ids(arranged(keys, { ...firstView, sort }, nowMs));
  expect(sorted({ by: "created", order: "descending" })).toEqual(["new", "busy", "idle", "old"]);
  expect(sorted({ by: "created", order: "ascending" })).toEqual(["old", "idle", "busy", "new"]);
  expect(sorted({ by: "used", order: "descending" })).toEqual(["busy", "idle", "new", "old"]);
  expect(sorted({ by: "used", order: "ascending" })).toEqual(["old", "new", "idle", "busy"]);
  expect(sorted({ by: "expires", order: "ascending" })).toEqual(["idle", "new", "old", "busy"]);
  expect(sorted({ by: "expires", order: "descending" })).toEqual(["busy", "old", "new", "idle"]);
  // The list that was read is not changed.
  expect(ids(keys)).toEqual(["new", "busy", "idle", "old"]);
});

test("past keys are sorted by their end, the latest first, however they ended and whenever they were made", () => {
  const keys = [
    key("made last", { createMs: nowMs, expireMs: nowMs + 9, revokeMs: nowMs - 5 }),
    key("expired", { createMs: nowMs - 1, expireMs: nowMs - 3 }),
    key("ended last", { createMs: nowMs - 2, revokeMs: nowMs - 1 }),
  ];
  const past: KeyView = { ...firstView, past: true };
  expect(ids(arranged(keys, past, nowMs))).toEqual(["ended last", "expired", "made last"]);
  const pastSort: KeySort = { by: "ended", order: "ascending" };
  expect(ids(arranged(keys, { ...past, pastSort }, nowMs))).toEqual(["made last", "expired", "ended last"]);
});

test("the past keys of a team are all read for their order, unless there are very many", () => {
  const past: KeyView = { ...firstView, past: true };
  const counts = (count: number) => ({ active: 1, activeMax: 50, past: count });
  const few = counts(bounds.pastKeysSortedMax);
  const many = counts(bounds.pastKeysSortedMax + 1);
  expect([needsAllPages(past, few), isSortable(past, few, true)]).toEqual([true, true]);
  expect([needsAllPages(past, many), isSortable(past, many, true)]).toEqual([false, false]);
  expect(isSortable(past, many, false)).toBe(true);
  expect([needsAllPages(firstView, many), isSortable(firstView, many, true)]).toEqual([false, true]);
});

test("unused for 90 days is a key that had this time to be used and was not", () => {
  const keys = [
    key("never used, too new to tell", { createMs: longAgoMs + 1 }),
    key("never used", { createMs: longAgoMs }),
    key("used since", { createMs: longAgoMs - 9, useMs: longAgoMs + 1 }),
    key("last used then", { createMs: longAgoMs - 9, useMs: longAgoMs }),
  ];
  expect(ids(arranged(keys, { ...firstView, unusedOnly: true }, nowMs))).toEqual([
    ...["never used", "last used then"],
  ]);
});

interface Times {
  readonly createMs: number;
  readonly useMs?: number;
  readonly expireMs?: number;
  readonly revokeMs?: number;
}

function key(id: string, { createMs, useMs, expireMs, revokeMs }: Times): Key {
  return sent(KeySchema, {
    id,
    createTime: timestampFromMs(createMs),
    ...(useMs !== undefined && { lastUseTime: timestampFromMs(useMs) }),
    ...(expireMs !== undefined && { expireTime: timestampFromMs(expireMs) }),
    ...(revokeMs !== undefined && { revokeTime: timestampFromMs(revokeMs) }),
  });
}

function ids(keys: readonly Key[]): string[] {
  return keys.map(({ id }) => id);
}
