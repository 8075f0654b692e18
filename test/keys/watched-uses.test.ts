import { expect, onTestFinished, test } from "vitest";
import { bounds } from "#src/bounds.ts";
import { createKeyEvents } from "#src/keys/key-events.ts";
import type { KeyRecord } from "#src/keys/key-store.ts";
import { createWatchedUses } from "#src/keys/watch-keys.ts";
import { unavailable } from "#src/refusal/refusal.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { keyRecordOf } from "../harness/store-records.ts";

const long = 60_000;

function setUp() {
  const clock = createManualClock();
  const events = createKeyEvents({ watchersMax: 10, perTeamMax: 5, queueMax: 4 });
  const keys = new Map<string, KeyRecord>();
  const lists = { asked: [] as string[], fail: false };
  const uses = createWatchedUses({
    clock,
    events,
    async list({ teamId, limit, includeRevoked }) {
      lists.asked.push(`${teamId} ${limit} ${includeRevoked}`);
      if (lists.fail) throw unavailable();
      return [...keys.values()].filter((key) => key.teamId === teamId);
    },
    readMs: 2,
  });
  uses.start();
  onTestFinished(() => uses.close());
  const use = (id: string, agoMs = 0) =>
    keys.set(id, keyRecordOf({ id, teamId: "demo", lastUseTimeMs: clock.unixMs() - agoMs }));
  const looks = async () => {
    const before = lists.asked.length;
    await expect.poll(() => lists.asked.length).toBeGreaterThan(before + 2);
  };
  return { clock, events, keys, lists, use, looks };
}

test("each use of a watched team's keys is told once, and only new ones", async () => {
  const { clock, events, use, looks } = setUp();
  use("old", bounds.keyUsesTellMs);
  use("fresh", bounds.keyUsesTellMs - 1);
  const watch = events.watch("demo");
  expect(await watch.next(long)).toMatchObject({ kind: "used", key: { id: "fresh" } });
  await looks();
  expect(await watch.next(1)).toBe("quiet");
  clock.advance(1_000);
  use("old");
  expect(await watch.next(long)).toMatchObject({ key: { id: "old", lastUseTimeMs: clock.unixMs() } });
  await looks();
  expect(await watch.next(1)).toBe("quiet");
});

test("a team is listed once a look, however many watch it, and not at all when nobody does", async () => {
  const { events, lists, looks } = setUp();
  const watches = [events.watch("demo"), events.watch("demo")];
  await looks();
  expect(new Set(lists.asked)).toEqual(new Set([`demo ${bounds.keyUsesWatchedMax} false`]));
  for (const watch of watches) watch.end(unavailable());
  await new Promise((resolve) => setTimeout(resolve, 20));
  const asked = lists.asked.length;
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(lists.asked.length).toBe(asked);
});

test("what a list that failed would have told is told by the next one", async () => {
  const { clock, events, lists, use, looks } = setUp();
  use("a", bounds.keyUsesTellMs);
  const watch = events.watch("demo");
  await looks();
  lists.fail = true;
  clock.advance(2 * bounds.keyUsesTellMs);
  use("a", bounds.keyUsesTellMs);
  await looks();
  lists.fail = false;
  expect(await watch.next(long)).toMatchObject({ kind: "used", key: { id: "a" } });
});

test("uses that nobody takes leave room for changes", async () => {
  const { clock, events, use, looks } = setUp();
  const watch = events.watch("demo");
  for (let n = 0; n < 6; n++) {
    clock.advance(1_000);
    use("a");
    await looks();
  }
  const created = { kind: "created", key: keyRecordOf({ id: "b", teamId: "demo" }) } as const;
  events.publish(created);
  const told = [await watch.next(long), await watch.next(long), await watch.next(long)];
  expect(told.map((event) => (event === "quiet" ? event : event.kind))).toEqual(["used", "used", "created"]);
});
