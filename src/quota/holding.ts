import { unavailable } from "../refusal/refusal.ts";
import type { PeriodOfUtc, QuotaState, QuotaSubject } from "./quota.ts";
import {
  blockOf,
  type QuotaClaim,
  type QuotaGiveBack,
  type QuotaGiven,
  type QuotaPlace,
  type QuotaRecord,
  quotaBounds,
} from "./quota-store.ts";

/** Callers that wait for one claim. */
interface Waiting extends PromiseWithResolvers<void> {
  wanted: number;
}

interface Asked {
  readonly claim: QuotaClaim;
  readonly waiting: Waiting | undefined;
}

/** What this instance holds of one quota in one period, and what it knows of its record. */
export class Holding {
  /** Requests that the store has given, and that nobody has spent. */
  held = 0;
  /** When a request was taken from it, or waited, by the monotonic clock. One refused is no use. */
  usedMs = Number.NEGATIVE_INFINITY;
  /** A claim is under way. */
  isAsking = false;
  /** The answer of a claim was lost, so the store may have a hold that is not known here. */
  isUnsure = false;
  /** Nobody may spend of it any more. */
  isDropped = false;
  subject: QuotaSubject;
  readonly period: PeriodOfUtc;
  readonly #place: QuotaPlace;
  #seen: Pick<QuotaRecord, "claimed" | "granted"> | undefined;
  /** That of the hold in the record; undefined: there is none. */
  #claim: { readonly owner: string; readonly seq: number } | undefined;
  #block = 1;
  #gone: readonly string[] = [];
  #othersHold = false;
  #exhaustedUntilMs = Number.NEGATIVE_INFINITY;
  #failedUntilMs = Number.NEGATIVE_INFINITY;
  #next: Waiting | undefined;
  #asked: Asked | undefined;

  constructor(subject: QuotaSubject, place: QuotaPlace, period: PeriodOfUtc) {
    this.subject = subject;
    this.#place = place;
    this.period = period;
  }

  /** False where the limit is lower than that by which it was claimed. */
  raiseTo(subject: QuotaSubject): boolean {
    const before = this.subject.limit.requests;
    if (subject.limit.requests < before) return false;
    this.subject = subject;
    if (subject.limit.requests > before) this.#exhaustedUntilMs = Number.NEGATIVE_INFINITY;
    return true;
  }

  spend(cost: number, nowMs: number): boolean {
    if (this.held < cost) return false;
    this.usedMs = nowMs;
    this.held -= cost;
    return true;
  }

  /** Whether the next block should be claimed now, so that nobody has to wait for it. */
  runsOut(nowMs: number): boolean {
    return !this.isAsking && this.held < this.#block / 2 && this.#block > 1 && nowMs >= this.#failedUntilMs;
  }

  /** Whether the store has said, a moment ago, that nothing is left. */
  isExhausted(nowMs: number): boolean {
    return nowMs < this.#exhaustedUntilMs;
  }

  retryAfterMs(unixMs: number): number {
    const endMs = Math.max(1, this.period.endMs - unixMs);
    return this.#othersHold ? Math.min(endMs, quotaBounds.idleMs) : endMs;
  }

  /** Resolves once the store was asked for this cost, too. */
  wait(cost: number, nowMs: number): Promise<void> {
    this.usedMs = nowMs;
    this.#next ??= { ...Promise.withResolvers<void>(), wanted: 0 };
    this.#next.wanted += cost;
    return this.#next.promise;
  }

  /** Those who wait must ask anew. Always false. */
  leave(): false {
    this.#next?.resolve();
    this.#next = undefined;
    return false;
  }

  needsMore(): boolean {
    return this.#next !== undefined;
  }

  claimNow(seq: number, owner: string): QuotaClaim {
    const waiting = this.#next;
    this.#next = undefined;
    this.isAsking = true;
    const { limit, requestsPerMinute } = this.subject;
    const claim = {
      place: this.#place,
      limit: limit.requests,
      wanted: Math.max(0, (waiting?.wanted ?? 0) - this.held),
      held: this.held,
      // While answers are lost, each claim may lose what it is given.
      blockMax: this.isUnsure ? 1 : Math.max(1, Math.floor(requestsPerMinute / 6)),
      owner,
      seq,
      gone: this.#gone,
      seen: this.#seen,
    };
    this.#asked = { claim, waiting };
    return claim;
  }

  landed(
    { given, record }: QuotaGiven,
    { isLive, nowMs }: { readonly isLive: (owner: string) => boolean; readonly nowMs: number },
  ): void {
    const { claim, waiting } = this.#answered();
    this.#seen = record;
    this.held += given;
    if (given > 0) {
      this.#claim = claim;
      this.isUnsure = false;
    }
    if (given < claim.wanted) this.#exhaustedUntilMs = nowMs + quotaBounds.askAgainMs;
    const left = claim.limit + record.granted - record.claimed;
    this.#block = blockOf(left, claim.blockMax);
    const others = Object.entries(record.holds).filter(([owner]) => owner !== claim.owner);
    this.#othersHold = others.some(([owner, { unspent }]) => unspent > 0 && isLive(owner));
    const gone = others.map(([owner]) => owner).filter((owner) => !isLive(owner));
    this.#gone = others.length < quotaBounds.holdsMax ? [] : gone;
    waiting?.resolve();
  }

  failed(cause: unknown, nowMs: number): void {
    const { waiting } = this.#answered();
    this.isUnsure = true;
    this.#failedUntilMs = nowMs + quotaBounds.askAgainMs;
    waiting?.reject(unavailable({ cause }));
  }

  #answered(): Asked {
    const asked = this.#asked;
    if (!asked) throw new Error("no claim is under way");
    this.#asked = undefined;
    this.isAsking = false;
    return asked;
  }

  granted(record: Pick<QuotaRecord, "claimed" | "granted">): void {
    this.#seen = record;
    this.#exhaustedUntilMs = Number.NEGATIVE_INFINITY;
  }

  /** The order that gives back all that is held; undefined where the record has no hold of it. */
  takeBack(): QuotaGiveBack | undefined {
    const claim = this.#claim;
    if (!claim) return undefined;
    const unspent = this.held;
    this.held = 0;
    this.#claim = undefined;
    return { id: this.#place.id, owner: claim.owner, seq: claim.seq, unspent };
  }

  /** Whether it can be forgotten, and only has to be read again. */
  isIdle(): boolean {
    return !this.isAsking && !this.isUnsure && this.#claim === undefined && this.#next === undefined;
  }

  state(): QuotaState {
    const { requests: limit, period } = this.subject.limit;
    const { claimed, granted } = this.#seen ?? { claimed: 0, granted: 0 };
    const left = Math.max(0, limit + granted - claimed) + this.held;
    return { limit, period, used: claimed, granted, left, resetTimeMs: this.period.endMs };
  }
}
