/**
 * The blocks of requests that this instance holds, and how it spends them. `reserve` takes from a
 * block in memory, before its first await. What the store must be asked is collected in one turn of
 * the event loop and written together, one write at a time.
 */

import { setImmediate } from "node:timers/promises";
import type { Clock } from "../base/clock.ts";
import { unavailable } from "../refusal/refusal.ts";
import type { QuotaPeriod } from "../settings/config.ts";
import { Holding, type Owners, type Stock } from "./holding.ts";
import {
  type PeriodOfUtc,
  periodOf,
  type QuotaState,
  type QuotaSubject,
  type Quotas,
  quotaStateOf,
} from "./quota.ts";
import {
  emptyQuota,
  type QuotaPlace,
  type QuotaRecord,
  type QuotaStore,
  quotaBounds,
  quotaRecordId,
} from "./quota-store.ts";

export interface LedgerParts extends Owners {
  readonly clock: Clock;
  readonly store: QuotaStore;
  /** Called where the records of old periods can't be removed. */
  readonly onFailed: (cause: unknown) => void;
  readonly subjectsMax?: number;
}

export type Ledger = ReturnType<typeof createLedger>;

export function createLedger(parts: LedgerParts) {
  const { clock, store, onFailed, subjectsMax = quotaBounds.subjectsMax } = parts;
  /** By period and subject: where a plan has another period, each of the two has a record. */
  const holdings = { day: new Map<string, Holding>(), month: new Map<string, Holding>() };
  /** What the store should be asked for next. */
  const due = new Set<Holding>();
  let writing: Promise<void> | undefined;
  /** No period begins again: a wall clock that goes back stands still here. */
  let unixMs = 0;
  const current = new Map<QuotaPeriod, PeriodOfUtc>();
  let keptAtMs = Number.NEGATIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;

  function periodNow(period: QuotaPeriod): PeriodOfUtc {
    unixMs = Math.max(unixMs, clock.unixMs());
    const known = current.get(period);
    if (known && unixMs < known.endMs) return known;
    const begun = periodOf(period, unixMs);
    current.set(period, begun);
    return begun;
  }

  function placeOf({ id, teamId, limit }: QuotaSubject): QuotaPlace {
    const { id: periodId, startMs } = periodNow(limit.period);
    return { id: quotaRecordId(id, periodId), teamId, startTimeMs: startMs, version: Math.trunc(unixMs) };
  }

  /** That of this period, if there is one, with the present limit. */
  function find(subject: QuotaSubject): Holding | undefined {
    const found = holdings[subject.limit.period].get(subject.id);
    if (found?.period !== periodNow(subject.limit.period)) return undefined;
    found.limitBy(subject);
    return found;
  }

  function findOrAdd(subject: QuotaSubject): Holding {
    const found = find(subject);
    if (found) return found;
    if (size() >= subjectsMax) makeRoom();
    const { period } = subject.limit;
    const added = new Holding(subject, placeOf(subject), periodNow(period), parts);
    holdings[period].set(subject.id, added);
    return added;
  }

  function size(): number {
    return holdings.day.size + holdings.month.size;
  }

  function* all(): Generator<Holding> {
    yield* holdings.day.values();
    yield* holdings.month.values();
  }

  function forget({ subject: { id, limit } }: Holding): void {
    holdings[limit.period].delete(id);
  }

  function makeRoom(): void {
    for (const each of all()) {
      if (!each.isIdle()) continue;
      forget(each);
      return;
    }
    throw unavailable({ cause: new Error("too many quotas are used at once") });
  }

  function ask(holding: Holding): void {
    due.add(holding);
    writing ??= writeAll();
  }

  async function writeAll(): Promise<void> {
    // What else arrives in this turn shares the write.
    await setImmediate();
    try {
      while (due.size > 0) await writeSome([...due].slice(0, quotaBounds.changesAtOnce));
    } finally {
      writing = undefined;
    }
  }

  async function writeSome(asked: readonly Holding[]): Promise<void> {
    for (const each of asked) due.delete(each);
    const begun = asked.flatMap((holding) => {
      const change = holding.begin(clock.monotonicMs());
      return change ? [{ holding, place: { ...holding.place, version: Math.trunc(unixMs) }, change }] : [];
    });
    const answers = await store.change(begun).catch((reason: unknown) => {
      return begun.map(() => ({ status: "rejected", reason }) as const);
    });
    const nowMs = clock.monotonicMs();
    for (const [place, { holding }] of begun.entries()) {
      const answer = answers[place];
      if (answer?.status !== "fulfilled") holding.failed(answer?.reason, nowMs);
      else if (holding.landed(answer.value, nowMs)) due.add(holding);
    }
  }

  /** Gives back what is idle, and forgets what is over. */
  function sweep(): void {
    const nowMs = clock.monotonicMs();
    for (const each of all()) {
      if (periodNow(each.subject.limit.period) !== each.period) forget(each);
      else each.voidIfIdle(nowMs);
      if (each.isDue()) ask(each);
    }
    if (nowMs - keptAtMs < quotaBounds.keeperMs) return;
    keptAtMs = nowMs;
    void removeOld().catch(onFailed);
  }

  async function removeOld(): Promise<void> {
    const old = {
      beforeMs: Math.max(0, clock.unixMs() - quotaBounds.keptMs),
      limit: quotaBounds.removedAtOnce,
    };
    while ((await store.deleteBefore(old)) > 0) await setImmediate();
  }

  function stateFrom(subject: QuotaSubject, { claimed, granted }: QuotaRecord): QuotaState {
    const held = find(subject)?.stock.left ?? 0;
    return quotaStateOf(subject, periodNow(subject.limit.period), { claimed, granted, held });
  }

  const quotas: Quotas = {
    reserve(subjects, cost) {
      const taken: Stock[] = [];
      const release = () => {
        for (const each of taken) each.left += cost;
      };
      for (const subject of subjects) {
        const holding = findOrAdd(subject);
        const nowMs = clock.monotonicMs();
        if (holding.spend(cost, nowMs)) {
          taken.push(holding.stock);
          if (holding.runsOut(nowMs)) ask(holding);
          continue;
        }
        release();
        if (holding.isExhausted(nowMs)) {
          const retryAfterMs = holding.retryAfterMs(unixMs);
          return { kind: "exceeded", state: holding.state(), retryAfterMs };
        }
        const answer = holding.wait(cost);
        ask(holding);
        return answer;
      }
      return { kind: "reserved", release };
    },
    known(subject) {
      // What was just reserved is of this period. One that is over is forgotten in a second.
      const found = holdings[subject.limit.period].get(subject.id);
      found?.limitBy(subject);
      return found?.known();
    },
    async state(subject) {
      const place = placeOf(subject);
      return stateFrom(subject, (await store.find(place.id)) ?? emptyQuota(place));
    },
    async grant(subject, grant) {
      const record = await store.grant(placeOf(subject), grant);
      find(subject)?.granted(record);
      return stateFrom(subject, record);
    },
    *knownTeams() {
      for (const each of all()) {
        const known = find(each.subject)?.known();
        if (known?.subject === "team") yield known;
      }
    },
  };

  function voidAll(of: (holding: Holding) => boolean): void {
    for (const each of all()) {
      if (!of(each)) continue;
      each.void();
      if (each.isDue()) ask(each);
    }
  }

  const dropTeam = (teamId: string) => voidAll(({ subject }) => subject.teamId === teamId);

  return {
    quotas,
    /** Gives back what is held of the team, which may be another one with its id from now on. */
    dropTeam,
    /** As `dropTeam`, for all. */
    dropAll: () => voidAll(() => true),
    /** Deletes the records of a team. Calls `before` before each write. */
    async deleteOfTeam(teamId: string, before: () => void): Promise<void> {
      dropTeam(teamId);
      do before();
      while ((await store.deleteOfTeam(teamId, quotaBounds.removedAtOnce)) > 0);
    },
    start(): void {
      timer ??= setInterval(sweep, quotaBounds.askAgainMs).unref();
    },
    sweep,
    /** Gives back what is held. Never rejects. */
    async close(): Promise<void> {
      clearInterval(timer);
      while (writing) await writing;
      voidAll(() => true);
      while (writing) await writing;
    },
    size,
  };
}
