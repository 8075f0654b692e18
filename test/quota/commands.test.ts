import { DatabaseSync } from "node:sqlite";
import { afterAll, expect, test } from "vitest";
import { createLedger, type Ledger } from "#src/quota/ledger.ts";
import type { QuotaSubject } from "#src/quota/quota.ts";
import type { QuotaStore } from "#src/quota/quota-store.ts";
import { createQuotaStore } from "#src/store/sqlite/quota-store.ts";
import { createSchema } from "#src/store/sqlite/schema.ts";
import { campaignSize, figures } from "../harness/campaigns.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { createMongoDatabases } from "../harness/mongo-databases.ts";
import { storesOfTier } from "../harness/needs.ts";
import { openMongoForTest } from "../harness/open-mongo.ts";
import { createRandom, type Random } from "../harness/seeded-random.ts";

const databases = createMongoDatabases();
afterAll(() => databases.drop());

interface Opened {
  readonly quotas: QuotaStore;
  close(): unknown;
}

const size = campaignSize("quota-commands");
const stores = storesOfTier<{
  readonly name: string;
  readonly commands: number;
  readonly open: () => Promise<Opened>;
}>(
  {
    name: "the embedded store",
    commands: size,
    async open() {
      const db = new DatabaseSync(":memory:");
      createSchema(db);
      return { quotas: createQuotaStore(db), close: () => db.close() };
    },
  },
  // A write takes it a hundred times as long.
  {
    name: "MongoDB",
    commands: Math.ceil(size / 8),
    open: () => openMongoForTest({ uri: databases.createUri() }),
  },
);

test.each(stores)(
  "many random commands on $name are decided as a naive counter decides them",
  { timeout: 240_000 + size },
  async ({ name, commands, open }) => {
    const opened = await open();
    const random = createRandom(577);
    const seen = {
      admitted: 0,
      refused: 0,
      early: 0,
      released: 0,
      granted: 0,
      turns: 0,
      changes: 0,
      writes: 0,
    };
    let done = 0;
    try {
      for (let team = 0; done < commands; team++) {
        done += await tryTeam(
          opened.quotas,
          { teamId: `team-${team}`, isLarge: team % 5 === 4 },
          random,
          seen,
        );
      }
    } finally {
      await opened.close();
    }
    expect(Math.min(...Object.values(seen))).toBeGreaterThan(0);
    figures(name, { commands: done, ...seen });
  },
);

/** Commands on three instances that share the quotas of one team. Returns how many. */
async function tryTeam(
  quotas: QuotaStore,
  { teamId, isLarge }: { readonly teamId: string; readonly isLarge: boolean },
  random: Random,
  seen: Record<
    "admitted" | "refused" | "early" | "released" | "granted" | "turns" | "changes" | "writes",
    number
  >,
): Promise<number> {
  const clock = createManualClock({ monotonicMs: 0, unixMs: Date.parse("2028-02-28T12:00:00Z") });
  const pending = new Set<Promise<unknown>>();
  const store: QuotaStore = {
    ...quotas,
    async change(changes) {
      seen.writes += changes.length;
      const answers = quotas.change(changes);
      pending.add(answers);
      return await answers.finally(() => pending.delete(answers));
    },
  };
  const owners = ["a", "b", "c"];
  const ledgers = owners.map((owner) =>
    createLedger({ clock, store, owner: () => owner, isLive: (id) => owners.includes(id), onFailed() {} }),
  );
  const count = isLarge ? 20_000 : 500;
  let teamLimit = isLarge ? 15_000 : random.pick([1, 30, 120, 300]);
  const keyLimit = isLarge ? 4_000 : random.pick([1, 20, 110]);
  const subjectOf = (name: "team" | "key"): QuotaSubject => ({
    ...{ id: name === "team" ? teamId : `${teamId}/key`, teamId, requestsPerMinute: isLarge ? 6_000 : 120 },
    limit: { requests: name === "team" ? teamLimit : keyLimit, period: name === "team" ? "month" : "day" },
  });
  const naive = createNaiveCounter(() => clock.unixMs());
  const quiet = async () => {
    clock.advance(10_000);
    for (const ledger of ledgers) ledger.sweep();
    do {
      await Promise.all(pending);
      // A ledger collects what it asks in a turn of the event loop.
      for (let turn = 0; turn < 2; turn++) await new Promise(setImmediate);
    } while (pending.size > 0);
  };

  for (let n = 0; n < count; n++) {
    const ledger = random.pick(ledgers);
    const what = random.next();
    if (what < 0.002) {
      const next = Math.ceil(teamLimit * random.pick([0.5, 0.9, 1.5, 2]));
      teamLimit = Math.min(next, isLarge ? 30_000 : 600);
      for (const each of ledgers) each.dropTeam(teamId);
      seen.changes += 1;
    } else if (what < 0.004) {
      const grant = { requests: 1 + random.whole(isLarge ? 500 : 20), requestId: `g${random.whole(40)}` };
      const subject = subjectOf("team");
      naive.grant(subject, grant);
      expect(await ledger.quotas.grant(subject, grant)).toMatchObject({ granted: naive.granted(subject) });
      // After so long all instances go by it.
      clock.advance(1_000);
      seen.granted += 1;
    } else if (what < (isLarge ? 0.0043 : 0.008)) {
      // All have read the time before it is set back.
      clock.advance(random.pick([900, 3_600_000, 13 * 3_600_000]));
      for (const each of ledgers) await each.quotas.state(subjectOf("team"));
      naive.used(subjectOf("team"));
      if (random.chance(0.3)) clock.stepWall(-random.whole(40 * 3_600_000));
    } else {
      const names = random.pick([["team"], ["team"], ["team", "key"], ["key"]] as const);
      const subjects = names.map(subjectOf);
      const cost = random.chance(0.1) ? 1 + random.whole(6) : 1;
      let answer = await ask(ledger, subjects, cost);
      if (answer.kind === "exceeded" && naive.hasRoom(subjects, cost)) {
        // It may be only because of what others hold, or because this was so a moment ago.
        expect(answer.retryAfterMs, `command ${n} of ${teamId}`).toBeLessThanOrEqual(10_000);
        seen.early += 1;
        await quiet();
        answer = await ask(ledger, subjects, cost);
      }
      const wanted = naive.hasRoom(subjects, cost) ? "reserved" : "exceeded";
      if (answer.kind !== wanted) expect(answer, `command ${n} of ${teamId}`).toMatchObject({ kind: wanted });
      if (answer.kind === "exceeded") seen.refused += 1;
      else if (random.chance(0.05)) {
        answer.release();
        seen.released += 1;
      } else {
        naive.spend(subjects, cost);
        seen.admitted += 1;
      }
    }
  }
  await quiet();
  for (const subject of [subjectOf("team"), subjectOf("key")]) {
    expect(await ledgers[0]!.quotas.state(subject)).toMatchObject({ used: naive.used(subject) });
  }
  seen.turns += naive.turns() - 1;
  return count;
}

/** As the admission asks: again, as often as the ledger has to ask the store. */
async function ask({ quotas }: Ledger, subjects: readonly QuotaSubject[], cost: number) {
  for (let tries = 0; tries < 20; tries++) {
    const answer = quotas.reserve(subjects, cost);
    if (!(answer instanceof Promise)) return answer;
    await answer;
  }
  return expect.fail("it is never claimed");
}

/** Adds up what is spent and granted, by the name of the day or month. */
function createNaiveCounter(unixMs: () => number) {
  const used = new Map<string, number>();
  const grants = new Map<string, Map<string, number>>();
  const days = new Set<string>();
  let newestMs = 0;
  /** The time stands still where the clock is set back. */
  const placeOf = ({ id, limit }: QuotaSubject) => {
    newestMs = Math.max(newestMs, unixMs());
    const date = new Date(newestMs).toISOString();
    days.add(date.slice(0, 10));
    return `${id}/${date.slice(0, limit.period === "day" ? 10 : 7)}`;
  };
  const usedOf = (subject: QuotaSubject) => used.get(placeOf(subject)) ?? 0;
  const granted = (subject: QuotaSubject) =>
    [...(grants.get(placeOf(subject))?.values() ?? [])].reduce((sum, requests) => sum + requests, 0);
  return {
    used: usedOf,
    granted,
    turns: () => days.size,
    hasRoom: (subjects: readonly QuotaSubject[], cost: number) =>
      subjects.every((each) => usedOf(each) + cost <= each.limit.requests + granted(each)),
    spend(subjects: readonly QuotaSubject[], cost: number): void {
      for (const each of subjects) used.set(placeOf(each), usedOf(each) + cost);
    },
    grant(subject: QuotaSubject, { requests, requestId }: { requests: number; requestId: string }): void {
      const known = grants.get(placeOf(subject)) ?? new Map<string, number>();
      grants.set(placeOf(subject), known.set(requestId, known.get(requestId) ?? requests));
    },
  };
}
