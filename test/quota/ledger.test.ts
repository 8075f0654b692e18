import { expect, onTestFinished, test } from "vitest";
import { createLedger } from "#src/quota/ledger.ts";
import type { QuotaSubject } from "#src/quota/quota.ts";
import type { QuotaStore } from "#src/quota/quota-store.ts";
import { unavailable } from "#src/refusal/refusal.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { createManualClock } from "../harness/manual-clock.ts";

const folders = tempFolders();
const november = Date.parse("2026-11-30T23:59:00Z");

function subjectOf(requests: number, facts: Partial<QuotaSubject> = {}): QuotaSubject {
  const limit = { requests, period: "month" } as const;
  return { id: "demo", teamId: "demo", limit, requestsPerMinute: 600, ...facts };
}

/** Instances on one real store, which a test may cut off, and whose calls are counted. */
async function setUp() {
  const stores = await openSqliteStores({ dataDir: folders.create() });
  onTestFinished(() => stores.close());
  const clock = createManualClock({ monotonicMs: 0, unixMs: november });
  const world = {
    ...{ calls: [] as string[], isAway: false, losesAnswers: false, live: new Set<string>() },
    /** No answer comes before. */
    isSlow: Promise.resolve(),
  };
  const called = async <T>(name: string, work: () => Promise<T>): Promise<T> => {
    world.calls.push(name);
    if (world.isAway) throw unavailable();
    const answer = await work();
    await world.isSlow;
    if (world.losesAnswers) throw unavailable();
    return answer;
  };
  const real = stores.quotas;
  const store: QuotaStore = {
    ...real,
    change: (changes) => called("change", () => real.change(changes)),
    grant: (place, grant) => called("grant", () => real.grant(place, grant)),
    find: (id) => called("find", () => real.find(id)),
  };
  const open = (owner: string) => {
    world.live.add(owner);
    return createLedger({
      clock,
      store,
      owner: () => owner,
      isLive: (id) => world.live.has(id),
      onFailed: () => {},
    });
  };
  const record = async () => await real.find("demo/2026-11");
  return { clock, world, store: real, open, record };
}

type Ledger = ReturnType<typeof createLedger>;

/** As the admission asks: again, as often as the ledger has to ask the store. */
async function ask({ quotas }: Ledger, subjects: readonly QuotaSubject[], cost = 1) {
  for (let tries = 0; tries < 20; tries++) {
    const answer = quotas.reserve(subjects, cost);
    if (!(answer instanceof Promise)) return answer;
    await answer;
  }
  return expect.fail("it is never claimed");
}

async function admitted(ledger: Ledger, subject: QuotaSubject, times: number): Promise<number> {
  let count = 0;
  for (let n = 0; n < times; n++) if ((await ask(ledger, [subject])).kind === "reserved") count += 1;
  return count;
}

test("a quota gives exactly its requests, and then says until when it gives none", async () => {
  const { open, clock } = await setUp();
  const ledger = open("i1");
  expect(await admitted(ledger, subjectOf(500), 700)).toBe(500);
  const refused = await ask(ledger, [subjectOf(500)]);
  expect(refused).toMatchObject({ kind: "exceeded", retryAfterMs: 60_000, state: { used: 500, left: 0 } });
  clock.advance(60_000);
  expect(await admitted(ledger, subjectOf(500), 501)).toBe(500);
});

test("within a block no request waits, and the store is neither read nor written", async () => {
  const { open, world } = await setUp();
  const ledger = open("i1");
  await ask(ledger, [subjectOf(1_000_000)]);
  world.calls.length = 0;
  // A block is 10 s of the minute's limit: 100 requests, of which half are left when the next is
  // due.
  for (let n = 0; n < 49; n++) {
    expect(ledger.quotas.reserve([subjectOf(1_000_000)], 1)).toMatchObject({ kind: "reserved" });
  }
  expect(world.calls).toEqual([]);
});

test("callers of one turn share a write, and a store that says none is asked again once a second", async () => {
  const { open, world, clock } = await setUp();
  const ledger = open("i1");
  const crowd = (limit: number) =>
    Promise.all(Array.from({ length: 300 }, () => ask(ledger, [subjectOf(limit)])));
  const answers = await crowd(80);
  expect(answers.filter(({ kind }) => kind === "reserved")).toHaveLength(80);
  expect(world.calls).toEqual(["change"]);
  await crowd(80);
  expect(world.calls).toEqual(["change"]);
  clock.advance(1_000);
  await crowd(80);
  expect(world.calls).toEqual(["change", "change"]);
});

test("the quotas of a team and a key are taken together or not at all", async () => {
  const { open, record } = await setUp();
  const ledger = open("i1");
  const key = subjectOf(3, { id: "demo/k1" });
  const both = [subjectOf(10), key];
  for (let n = 0; n < 3; n++) expect((await ask(ledger, both)).kind).toBe("reserved");
  expect(await ask(ledger, both)).toMatchObject({ kind: "exceeded", state: { subject: "key" } });
  expect(await admitted(ledger, subjectOf(10), 20)).toBe(7);
  expect((await record())?.claimed).toBe(10);
});

test("what is released is spent by the next one, and what is idle goes back", async () => {
  const { open, record, clock } = await setUp();
  const [one, other] = [open("i1"), open("i2")];
  const taken = await ask(one, [subjectOf(5)], 5);
  expect(await ask(other, [subjectOf(5)])).toMatchObject({ kind: "exceeded", retryAfterMs: 10_000 });
  if (taken.kind === "reserved") taken.release();
  clock.advance(10_000);
  one.sweep();
  await one.close();
  expect(await record()).toMatchObject({ claimed: 0, holds: {} });
  expect((await ask(other, [subjectOf(5)], 5)).kind).toBe("reserved");
  expect(await ask(other, [subjectOf(5)])).toMatchObject({ retryAfterMs: 50_000 });
});

test("what is too little for those who ask goes back, too", async () => {
  const { open, clock } = await setUp();
  const [one, other] = [open("i1"), open("i2")];
  expect((await ask(one, [subjectOf(8)], 5)).kind).toBe("reserved");
  let count = 0;
  for (let seconds = 0; seconds < 15; seconds++) {
    count += await admitted(other, subjectOf(8), seconds === 0 ? 0 : 1);
    expect((await ask(one, [subjectOf(8)], 5)).kind).toBe("exceeded");
    clock.advance(1_000);
    one.sweep();
    await one.quotas.state(subjectOf(8));
    await new Promise(setImmediate);
    await new Promise(setImmediate);
  }
  expect(count).toBe(3);
});

test("an instance that another does not know yet gives all back that it holds", async () => {
  const { open, world } = await setUp();
  const [one, joined] = [open("i1"), open("i2")];
  world.live.delete("i2");
  expect(await admitted(joined, subjectOf(200), 1)).toBe(1);
  expect(await admitted(one, subjectOf(200), 1)).toBe(1);
  await joined.close();
  expect(await admitted(one, subjectOf(200), 250)).toBe(198);
});

test("the store away: the block goes on, then UNAVAILABLE, and never a refusal of the quota", async () => {
  const { open, world } = await setUp();
  const ledger = open("i1");
  await ask(ledger, [subjectOf(1_000)]);
  world.isAway = true;
  expect(await admitted(ledger, subjectOf(1_000), 19)).toBe(19);
  for (let n = 0; n < 3; n++) {
    await expect(ask(ledger, [subjectOf(1_000)])).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  }
  world.isAway = false;
  expect(await admitted(ledger, subjectOf(1_000), 2_000)).toBe(980);
});

test("a claim whose answer is lost is spent, and no hold of it stays", async () => {
  const { open, world, record, clock } = await setUp();
  const ledger = open("i1");
  await ask(ledger, [subjectOf(200)]);
  world.losesAnswers = true;
  await ask(ledger, [subjectOf(200)], 3);
  await expect(ask(ledger, [subjectOf(200)], 5)).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  world.losesAnswers = false;
  for (let seconds = 0; seconds < 3; seconds++) {
    clock.advance(10_000);
    ledger.sweep();
    await ledger.quotas.state(subjectOf(200));
    await new Promise(setImmediate);
    await new Promise(setImmediate);
  }
  expect((await record())?.holds).toEqual({});
  const { claimed = 0 } = (await record()) ?? {};
  expect(claimed).toBeGreaterThanOrEqual(4);
  expect(await admitted(ledger, subjectOf(200), 300)).toBe(200 - claimed);
});

test("a lowered quota voids the block, and a higher one is seen at once", async () => {
  const { open } = await setUp();
  const ledger = open("i1");
  expect(await admitted(ledger, subjectOf(10_000), 60)).toBe(60);
  expect(await admitted(ledger, subjectOf(70), 100)).toBe(10);
  expect(await admitted(ledger, subjectOf(75), 100)).toBe(5);
});

test("a grant counts at once here, and elsewhere within a second", async () => {
  const { open, clock } = await setUp();
  const [here, there] = [open("i1"), open("i2")];
  expect(await admitted(here, subjectOf(5), 9)).toBe(5);
  expect(await admitted(there, subjectOf(5), 9)).toBe(0);
  const grant = { requests: 4, requestId: "r" };
  for (const each of await Promise.all([1, 2, 3].map(() => here.quotas.grant(subjectOf(5), grant)))) {
    expect(each).toMatchObject({ granted: 4, limit: 5 });
  }
  expect(await admitted(here, subjectOf(5), 2)).toBe(2);
  clock.advance(1_000);
  expect(await admitted(there, subjectOf(5), 9)).toBe(2);
});

test("a clock that is set back begins no period again", async () => {
  const { open, clock } = await setUp();
  const ledger = open("i1");
  await admitted(ledger, subjectOf(10), 3);
  clock.stepWall(60_000);
  expect(await admitted(ledger, subjectOf(10), 12)).toBe(10);
  clock.stepWall(-60_000);
  expect(await admitted(ledger, subjectOf(10), 12)).toBe(0);
});

test("ten thousand teams whose month turns cost no write until they ask, and then share them", async () => {
  const { open, clock, world } = await setUp();
  const ledger = open("i1");
  const teams = Array.from({ length: 10_000 }, (_, n) => subjectOf(1_000, { id: `t${n}`, teamId: `t${n}` }));
  await Promise.all(teams.map((each) => ask(ledger, [each])));
  expect(world.calls.length).toBe(100);
  world.calls.length = 0;
  clock.advance(70_000);
  ledger.sweep();
  await new Promise(setImmediate);
  await new Promise(setImmediate);
  expect(world.calls).toEqual([]);
  expect(ledger.size()).toBe(0);
  // All of them at once in the new month: 100 share a write, and each is asked for once.
  await Promise.all(teams.map((each) => ask(ledger, [each])));
  expect(world.calls).toEqual(Array.from({ length: 100 }, () => "change"));
});

test("a team that has the id of a deleted one begins with nothing used and nothing held", async () => {
  const { open } = await setUp();
  const [one, other] = [open("i1"), open("i2")];
  await admitted(one, subjectOf(1_000), 30);
  await admitted(other, subjectOf(1_000), 30);
  await one.deleteOfTeam("demo", () => {});
  other.dropTeam("demo");
  await other.close();
  const again = open("i3");
  expect((await admitted(again, subjectOf(100), 150)) + (await admitted(one, subjectOf(100), 50))).toBe(100);
});

test("where nothing was left, what is dropped is asked for anew, and a lowered limit tells of nothing left", async () => {
  const { open, store } = await setUp();
  const ledger = open("i1");
  expect(await admitted(ledger, subjectOf(5), 6)).toBe(5);
  await store.deleteOfTeam("demo", 10);
  ledger.dropTeam("demo");
  expect(await admitted(ledger, subjectOf(5), 6)).toBe(5);
  expect(await ask(ledger, [subjectOf(4)])).toMatchObject({ kind: "exceeded", state: { used: 5, left: 0 } });
});

test("what goes back while the store is slow is claimed again by nobody", async () => {
  const { open, clock, world, record } = await setUp();
  const ledger = open("i1");
  await ask(ledger, [subjectOf(1_000)]);
  const slow = Promise.withResolvers<void>();
  world.isSlow = slow.promise;
  clock.advance(10_000);
  ledger.sweep();
  await new Promise(setImmediate);
  clock.advance(1_000);
  ledger.sweep();
  slow.resolve();
  for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate);
  expect(await record()).toMatchObject({ claimed: 1, holds: {} });
});

test("an answer to a grant that comes after the period's end tells nothing of the next period", async () => {
  const { open, clock, world } = await setUp();
  const ledger = open("i1");
  await admitted(ledger, subjectOf(50), 40);
  const slow = Promise.withResolvers<void>();
  world.isSlow = slow.promise;
  const granting = ledger.quotas.grant(subjectOf(50), { requests: 9, requestId: "r" });
  for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate);
  world.isSlow = Promise.resolve();
  clock.advance(60_000);
  await ask(ledger, [subjectOf(50)]);
  slow.resolve();
  await granting;
  expect(ledger.quotas.known(subjectOf(50))).toMatchObject({ used: 1, granted: 0, left: 49 });
});

test("a grant counts at its answer, although the answer to a claim from before comes later", async () => {
  const { open, clock, world } = await setUp();
  const ledger = open("i1");
  await admitted(ledger, subjectOf(5), 6);
  clock.advance(1_000);
  const slow = Promise.withResolvers<void>();
  world.isSlow = slow.promise;
  const asking = ask(ledger, [subjectOf(5)]);
  while (world.calls.length < 7) await new Promise(setImmediate);
  world.isSlow = Promise.resolve();
  await ledger.quotas.grant(subjectOf(5), { requests: 2, requestId: "r" });
  slow.resolve();
  expect((await asking).kind).toBe("reserved");
});

test("a record that was deleted and is made anew has none of its versions again, for which a late write may wait", async () => {
  const { open, clock, store, record } = await setUp();
  const ledger = open("i1");
  await admitted(ledger, subjectOf(50), 9);
  const { version = 0 } = (await record()) ?? {};
  await store.deleteOfTeam("demo", 10);
  ledger.dropTeam("demo");
  clock.advance(20);
  await ask(ledger, [subjectOf(50)]);
  expect((await record())?.version).toBeGreaterThan(version);
});

test("what was left of a deleted team's quota says nothing of the next one's, also where the answer is late", async () => {
  const { open, world, store } = await setUp();
  const [ledger, other] = [open("i1"), open("i2")];
  await admitted(other, subjectOf(5), 5);
  const slow = Promise.withResolvers<void>();
  world.isSlow = slow.promise;
  const asking = ask(ledger, [subjectOf(5)]);
  for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate);
  ledger.dropTeam("demo");
  await store.deleteOfTeam("demo", 10);
  slow.resolve();
  expect((await asking).kind).toBe("reserved");
});
