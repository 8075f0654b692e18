/**
 * The blocks of requests that this instance holds, and how it spends them. `reserve` takes from a
 * block in memory, before its first await. What the store must be asked is collected in one turn of
 * the event loop and written together, one write at a time.
 */

import { setImmediate } from "node:timers/promises";
import type { Clock } from "../base/clock.ts";
import { fail, unavailable } from "../refusal/refusal.ts";
import type { QuotaPeriod } from "../settings/config.ts";
import { Holding } from "./holding.ts";
import { type PeriodOfUtc, periodOf, type QuotaState, type QuotaSubject, type Quotas } from "./quota.ts";
import {
  type QuotaGiveBack,
  type QuotaPlace,
  type QuotaStore,
  quotaBounds,
  quotaRecordId,
} from "./quota-store.ts";

export interface LedgerParts {
  readonly clock: Clock;
  readonly store: QuotaStore;
  /** The id of this instance now. Another one may never have it. */
  readonly owner: () => string;
  /** Whether another instance with this id serves the store now. */
  readonly isLive: (owner: string) => boolean;
  /** Called where the store can't be reached, or keeps what should be removed. */
  readonly onFailed: (cause: unknown) => void;
  readonly subjectsMax?: number;
}

export type Ledger = ReturnType<typeof createLedger>;

export function createLedger(parts: LedgerParts) {
  const { clock, store, owner, isLive, onFailed, subjectsMax = quotaBounds.subjectsMax } = parts;
  const holdings = new Map<string, Holding>();
  /** Those whose next claim is due. */
  const due = new Set<Holding>();
  let returns: QuotaGiveBack[] = [];
  let writing: Promise<void> | undefined;
  let seq = 0;
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
    return { id: quotaRecordId(id, periodId), teamId, period: limit.period, startTimeMs: startMs };
  }

  /** That of this period and of no greater limit, if there is one. */
  function find(subject: QuotaSubject): Holding | undefined {
    const found = holdings.get(subject.id);
    if (!found) return undefined;
    if (found.period === periodNow(subject.limit.period) && found.raiseTo(subject)) return found;
    // The month has turned, or the plan is another one: no request may be spent of what it had.
    drop(found);
    return undefined;
  }

  function findOrAdd(subject: QuotaSubject): Holding {
    const found = find(subject);
    if (found) return found;
    if (holdings.size >= subjectsMax) makeRoom();
    const added = new Holding(subject, placeOf(subject), periodNow(subject.limit.period));
    holdings.set(subject.id, added);
    return added;
  }

  function makeRoom(): void {
    for (const each of holdings.values()) {
      if (!each.isIdle()) continue;
      holdings.delete(each.subject.id);
      return;
    }
    throw unavailable({ cause: new Error("too many quotas are used at once") });
  }

  function drop(holding: Holding): void {
    if (holdings.get(holding.subject.id) === holding) holdings.delete(holding.subject.id);
    holding.isDropped = true;
    if (!holding.isAsking) putBack(holding);
  }

  /** Gives back what is not spent, unless nobody will ask for it any more. */
  function putBack(holding: Holding): void {
    const order = holding.takeBack();
    if (!order || unixMs >= holding.period.endMs) return;
    returns.push(order);
    write();
  }

  function ask(holding: Holding): void {
    if (!holding.isAsking) due.add(holding);
    write();
  }

  function write(): void {
    writing ??= writeAll().finally(() => {
      writing = undefined;
      // What came after the last look.
      if (due.size > 0) write();
    });
  }

  async function writeAll(): Promise<void> {
    // What else arrives in this turn shares the write.
    await setImmediate();
    let isFailing = false;
    while (due.size > 0 || (returns.length > 0 && !isFailing)) {
      isFailing ||= !(await giveBack());
      await claim([...due].slice(0, quotaBounds.claimsAtOnce));
    }
  }

  /** What the store could not take is tried again with the next write. */
  async function giveBack(): Promise<boolean> {
    const orders = returns.slice(0, quotaBounds.claimsAtOnce);
    if (orders.length === 0) return true;
    try {
      await store.giveBack(orders);
      returns = returns.slice(orders.length);
      return true;
    } catch (cause) {
      onFailed(cause);
      return false;
    }
  }

  async function claim(asking: readonly Holding[]): Promise<void> {
    for (const each of asking) due.delete(each);
    const waits = asking.filter((each) => !each.isDropped || each.leave());
    if (waits.length === 0) return;
    const own = owner();
    const claims = waits.map((each) => each.claimNow(++seq, own));
    const answers = await store.claim(claims).catch((reason: unknown) => {
      return claims.map(() => ({ status: "rejected", reason }) as const);
    });
    for (const [place, each] of waits.entries()) {
      const answer = answers[place];
      if (answer?.status === "fulfilled") each.landed(answer.value, { isLive, nowMs: clock.monotonicMs() });
      else each.failed(answer?.reason, clock.monotonicMs());
      if (each.isDropped) {
        each.leave();
        putBack(each);
      } else if (each.needsMore()) due.add(each);
    }
  }

  /** Gives back what is idle, and forgets what is over. */
  function sweep(): void {
    const nowMs = clock.monotonicMs();
    for (const each of holdings.values()) {
      if (each.isAsking || due.has(each)) continue;
      if (periodNow(each.subject.limit.period) !== each.period) holdings.delete(each.subject.id);
      else if (nowMs - each.usedMs < quotaBounds.idleMs) continue;
      // It is not known which claim the store has: one more says it, and goes back after it.
      else if (each.isUnsure) ask(each);
      else putBack(each);
    }
    if (returns.length > 0) write();
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

  async function stateOf(subject: QuotaSubject): Promise<QuotaState> {
    const record = await store.find(placeOf(subject).id);
    const { endMs } = periodNow(subject.limit.period);
    return stateFrom(
      subject,
      { claimed: 0, granted: 0, ...record },
      { endMs, held: find(subject)?.held ?? 0 },
    );
  }

  const quotas: Quotas = {
    reserve(subjects, cost) {
      const taken: Holding[] = [];
      const release = () => {
        for (const each of taken) each.held += cost;
      };
      for (const [place, subject] of subjects.entries()) {
        const holding = findOrAdd(subject);
        const nowMs = clock.monotonicMs();
        if (holding.spend(cost, nowMs)) {
          taken.push(holding);
          if (holding.runsOut(nowMs)) ask(holding);
          continue;
        }
        release();
        if (holding.isExhausted(nowMs)) {
          const retryAfterMs = holding.retryAfterMs(unixMs);
          return { kind: "exceeded", place, state: holding.state(), retryAfterMs };
        }
        const answer = holding.wait(cost, nowMs);
        ask(holding);
        return answer;
      }
      return { kind: "reserved", release };
    },
    known: (subject) => find(subject)?.state(),
    state: stateOf,
    async grant(subject, grant) {
      const place = placeOf(subject);
      const { grantIds = [] } = (await store.find(place.id)) ?? {};
      if (grantIds.length >= quotaBounds.grantsMax && !grantIds.includes(grant.requestId)) {
        const problem = `the team has ${quotaBounds.grantsMax} grants in this period. Raise its plan.`;
        throw fail("INVALID_ARGUMENT", { param: "team_id", problem });
      }
      const record = await store.grant(place, grant);
      find(subject)?.granted(record);
      const { endMs } = periodNow(subject.limit.period);
      return stateFrom(subject, record, { endMs, held: find(subject)?.held ?? 0 });
    },
    *knownTeams() {
      for (const each of holdings.values()) {
        if (each.subject.id === each.subject.teamId && find(each.subject)) yield each.state();
      }
    },
  };

  return {
    quotas,
    /** Gives back what is held of the team, which may be another one with its id from now on. */
    dropTeam(teamId: string): void {
      for (const each of [...holdings.values()]) if (each.subject.teamId === teamId) drop(each);
    },
    /** As `dropTeam`, for all. */
    dropAll(): void {
      for (const each of [...holdings.values()]) drop(each);
    },
    /** Deletes the records of a team. Calls `before` before each write. */
    async deleteOfTeam(teamId: string, before: () => void): Promise<void> {
      for (const each of [...holdings.values()]) if (each.subject.teamId === teamId) drop(each);
      do before();
      while ((await store.deleteOfTeam(teamId, quotaBounds.removedAtOnce)) > 0);
    },
    /**
     * Learns from the store which period has begun, so that a clock that was set back begins none
     * again. One that the clock is further from than the next period was never right.
     */
    async open(): Promise<void> {
      for (const period of ["day", "month"] as const) {
        const startMs = (await store.newestStartMs(period)) ?? 0;
        if (startMs <= periodOf(period, clock.unixMs()).endMs) unixMs = Math.max(unixMs, startMs);
      }
    },
    start(): void {
      timer ??= setInterval(sweep, quotaBounds.askAgainMs).unref();
    },
    sweep,
    /** Gives back what is held. Never rejects. */
    async close(): Promise<void> {
      clearInterval(timer);
      while (writing) await writing;
      for (const each of [...holdings.values()]) drop(each);
      while (writing) await writing;
    },
    size: () => holdings.size,
  };
}

function stateFrom(
  { limit: { requests: limit, period } }: QuotaSubject,
  { claimed, granted }: { readonly claimed: number; readonly granted: number },
  { endMs, held }: { readonly endMs: number; readonly held: number },
): QuotaState {
  const left = Math.max(0, limit + granted - claimed) + held;
  return { limit, period, used: claimed, granted, left, resetTimeMs: endMs };
}
