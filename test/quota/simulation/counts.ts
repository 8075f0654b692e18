import type { QuotaExceeded, QuotaSubject } from "#src/quota/quota.ts";
import type { QuotaPeriod } from "#src/settings/config.ts";

const dayMs = 86_400_000;

/** What one process has had of one record, as the observer counts it. */
interface Account {
  /** What the store gave it, less what it admitted and what it gave back. */
  unspent: number;
  /** How much of that may be lost for ever: by a kill, and by calls that failed. */
  mayLose: number;
  /** What more than a block it may hold: what was released, or claimed for callers that went. */
  aside: number;
  /** A claim of it took effect late. */
  hasForgotten: boolean;
}

/** A process, as far as it is counted. */
export interface Counted {
  readonly name: string;
  /** The latest that it has read from its wall clock. */
  wallMaxMs: number;
  wallMs(): number;
  monotonicMs(): number;
  readonly accounts: Map<string, Account>;
  /** By record: when the store said that nothing was left. */
  readonly emptyMs: Map<string, number>;
  /** By kind: the end of the newest period in which it has admitted or refused. */
  readonly ends: Map<QuotaPeriod, number>;
}

interface Refused {
  readonly cost: number;
  readonly othersHold: (id: string) => boolean | undefined;
}

/** For how long an instance may go by what the store said: the second, and what clocks differ. */
const staleMs = 1_010;
/** No refusal names more where another instance holds requests. */
const earlyMs = 10_000;

/**
 * A naive counter, outside of all instances: it sees each request that is admitted, and each effect
 * in the store. It shares no code with what it checks.
 */
export function createCounts({ requestsPerMinute }: { readonly requestsPerMinute: number }) {
  const violations: string[] = [];
  const totals = { admitted: 0, refused: 0, early: 0, unavailable: 0, lost: 0, turns: 0, kills: 0 };
  const admittedOf = new Map<string, number>();
  const grantsOf = new Map<string, Map<string, number>>();
  /** By subject: the highest limit so far. */
  const limitMaxOf = new Map<string, number>();

  const admitted = (id: string) => admittedOf.get(id) ?? 0;
  const granted = (id: string) => [...(grantsOf.get(id)?.values() ?? [])].reduce((sum, n) => sum + n, 0);

  function accountOf(by: Counted, id: string): Account {
    const known = by.accounts.get(id);
    if (known) return known;
    const account = { unspent: 0, mayLose: 0, aside: 0, hasForgotten: false };
    by.accounts.set(id, account);
    return account;
  }

  /** The most that a block of this record may be. */
  function blockMax(id: string): number {
    const all = (limitMaxOf.get(id.slice(0, id.lastIndexOf("/"))) ?? 0) + granted(id);
    return Math.max(1, Math.min(Math.floor(all / 50), Math.floor(requestsPerMinute / 6)));
  }

  /** Changes what the process has not spent. */
  function addTo(by: Counted, id: string, requests: number): void {
    const account = accountOf(by, id);
    account.unspent += requests;
    if (account.unspent < 0) violations.push(`${by.name} gave back or spent what it did not have of ${id}`);
  }

  /** Its clock was ahead, so the period is over for it: it gives nothing of it back any more. */
  function isPast(by: Counted, id: string): boolean {
    const period = periodIn(id);
    return nameOf(period, by.wallMaxMs) > id.slice(id.lastIndexOf("/") + 1);
  }

  /** The id of the record of the period that ends then, which the process may be in. */
  function recordIn(by: Counted, subject: QuotaSubject, endMs: number): string {
    const { period } = subject.limit;
    const [first, last] = [endAfter(period, by.wallMs()), endAfter(period, by.wallMaxMs)];
    const before = by.ends.get(period) ?? endMs;
    if (endMs < before) violations.push(`${by.name} begins a ${period} again that ends at ${dateOf(endMs)}`);
    if (endMs > before) totals.turns += 1;
    if (endMs < first || endMs > last || endMs !== endAfter(period, endMs - 1))
      violations.push(`${by.name} takes ${dateOf(endMs)} for the end of a ${period}`);
    by.ends.set(period, endMs);
    return `${subject.id}/${nameOf(period, endMs - 1)}`;
  }

  return {
    violations,
    totals,
    admitted,
    granted,
    limitMax: (subject: QuotaSubject) =>
      limitMaxOf.set(subject.id, Math.max(subject.limit.requests, limitMaxOf.get(subject.id) ?? 0)),
    /** `limit` is the highest by which any instance may admit now. Returns the id of the record. */
    admit(by: Counted, subject: QuotaSubject, at: { cost: number; endMs: number; limit: number }): string {
      const id = recordIn(by, subject, at.endMs);
      const sum = admitted(id) + at.cost;
      admittedOf.set(id, sum);
      addTo(by, id, -at.cost);
      const most = at.limit + granted(id);
      if (sum > most) violations.push(`${by.name} admitted ${sum} of the ${most} of ${id}`);
      return id;
    },
    /** A request that was admitted is undone; `isLost`: what it had was given back before. */
    release(by: Counted, id: string, cost: number, isLost: boolean): void {
      admittedOf.set(id, admitted(id) - cost);
      addTo(by, id, cost);
      const account = accountOf(by, id);
      if (isLost) account.mayLose += cost;
      else account.aside += cost;
    },
    /** `othersHold`: whether another live instance holds requests, as far as it may know. */
    refuse(
      by: Counted,
      subject: QuotaSubject,
      { retryAfterMs, state, cost, othersHold }: QuotaExceeded & Refused,
    ): string {
      totals.refused += 1;
      const id = recordIn(by, subject, state.resetTimeMs);
      const emptyMs = by.emptyMs.get(id) ?? Number.NEGATIVE_INFINITY;
      if (by.monotonicMs() - emptyMs > staleMs)
        violations.push(`${by.name} refused with requests left of ${id}`);
      if (state.left >= cost)
        violations.push(`${by.name} refused ${cost} of ${id}, and tells that ${state.left} are left`);
      // At least: a clock that goes back stands still in the ledger.
      const leftMs = Math.max(1, state.resetTimeMs - by.wallMaxMs);
      const isEarly = retryAfterMs <= earlyMs;
      if (leftMs <= earlyMs && isEarly) return id;
      if (isEarly) totals.early += 1;
      if (isEarly !== (othersHold(id) ?? isEarly))
        violations.push(`${by.name} refused ${id} ${isEarly ? "for seconds" : "for good"}, wrongly`);
      if (retryAfterMs <= 0 || (!isEarly && retryAfterMs < Math.min(leftMs, dayMs)))
        violations.push(`${by.name} refused ${id} for ${retryAfterMs} ms`);
      return id;
    },
    given: addTo,
    /** What a failed call may have lost: a block, or what callers waited for. */
    failed(by: Counted, id: string, wanted: number): void {
      const account = accountOf(by, id);
      account.mayLose += Math.max(wanted, blockMax(id)) + account.aside;
    },
    unused: (by: Counted, id: string, cost: number) => (accountOf(by, id).aside += cost),
    /** It is killed, or its lease is over: what it held, and what was on its way, may be lost. */
    mayLoseAll(by: Counted, waitingFor: (id: string) => number): void {
      for (const [id, account] of by.accounts)
        account.mayLose += blockMax(id) + waitingFor(id) + account.aside;
    },
    /** In effect in the store: once for each request id. */
    grant(id: string, requestId: string, requests: number): void {
      const known = grantsOf.get(id) ?? new Map<string, number>();
      grantsOf.set(id, known.set(requestId, known.get(requestId) ?? requests));
    },
    /** All records are gone. A call that failed before may still take effect on new ones. */
    forget(all: readonly Counted[]): void {
      admittedOf.clear();
      grantsOf.clear();
      for (const { accounts } of all) for (const account of accounts.values()) account.unspent = 0;
    },
    /**
     * A claim takes effect that its process no longer waits for: over a newer one, or beside it.
     */
    late(by: Counted, id: string): void {
      const account = accountOf(by, id);
      account.mayLose += blockMax(id) + account.aside;
      account.hasForgotten = true;
    },
    /** Whether the record may have a hold that its owner gives back no more. */
    hasForgottenHolds: (all: readonly Counted[], id: string) =>
      all.some((by) => by.accounts.get(id)?.hasForgotten || (by.accounts.has(id) && isPast(by, id))),
    /**
     * Everything was asked for until it was refused: what is missing was lost, and may have been.
     */
    close(all: readonly Counted[], id: string, limit: number): void {
      let mayLose = 0;
      for (const by of all) {
        const account = by.accounts.get(id);
        if (!account) continue;
        if (isPast(by, id)) account.mayLose += blockMax(id) + account.aside;
        mayLose += account.mayLose;
        if (account.unspent > account.mayLose)
          violations.push(
            `${by.name} lost ${account.unspent} of ${id}, where it may lose ${account.mayLose}`,
          );
      }
      const lost = limit + granted(id) - admitted(id);
      totals.lost += Math.max(0, lost);
      if (lost > mayLose) violations.push(`${lost} of ${id} were lost, where ${mayLose} may be`);
    },
  };
}

const known = new Map<string, number>();

/** The end of the day or month of this time: the next midnight at which its name is another. */
function endAfter(period: QuotaPeriod, unixMs: number): number {
  const midnightMs = Math.floor(unixMs / dayMs) * dayMs;
  const found = known.get(`${period} ${midnightMs}`);
  if (found !== undefined) return found;
  let endMs = midnightMs + dayMs;
  while (nameOf(period, endMs) === nameOf(period, midnightMs)) endMs += dayMs;
  known.set(`${period} ${midnightMs}`, endMs);
  return endMs;
}

function nameOf(period: QuotaPeriod, unixMs: number): string {
  return dateOf(unixMs).slice(0, period === "day" ? 10 : 7);
}

function periodIn(recordId: string): QuotaPeriod {
  return /-\d\d-\d\d$/.test(recordId) ? "day" : "month";
}

function dateOf(unixMs: number): string {
  return new Date(unixMs).toISOString();
}
