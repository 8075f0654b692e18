import { bounds } from "../bounds.ts";
import { unavailable } from "../refusal/refusal.ts";
import { type PeriodOfUtc, type QuotaState, type QuotaSubject, quotaStateOf } from "./quota.ts";
import {
  blockOf,
  claimQuota,
  type QuotaChange,
  type QuotaClaim,
  type QuotaPlace,
  type QuotaRecord,
  quotaBounds,
  returnQuota,
} from "./quota-store.ts";

/** Requests that the store has given and that nobody has spent. */
export interface Stock {
  left: number;
}

/** Callers that wait for one claim. */
interface Waiting extends PromiseWithResolvers<void> {
  wanted: number;
}

/**
 * What the store was asked: to give a block into the stock, or, without a claim, to take it back.
 */
interface Asked {
  readonly claim?: QuotaClaim;
  readonly stock: Stock;
  readonly waiting?: Waiting | undefined;
  /** The answer may tell of the record as it was before a grant. */
  isOutdated?: boolean;
}

/** Who serves the store. */
export interface Owners {
  /** The id of this instance now. Another one may never have it. */
  readonly owner: () => string;
  /** Whether another instance with this id serves the store now. */
  readonly isLive: (owner: string) => boolean;
}

/**
 * What this instance holds of one quota in one period, and what it knows of its record. The store
 * is asked one thing at a time.
 */
export class Holding {
  readonly place: QuotaPlace;
  readonly period: PeriodOfUtc;
  subject: QuotaSubject;
  stock: Stock = { left: 0 };
  /** When a request was taken from it, by the monotonic clock. One that waits is no use yet. */
  #usedMs = Number.NEGATIVE_INFINITY;
  readonly #owners: Owners;
  /** Goes back before anything else is claimed. Nobody may spend of it any more. */
  #voided: Stock | undefined;
  /** Whose hold the record may have: the answer of a claim may have been lost. */
  #owner: string | undefined;
  #seen: QuotaRecord | undefined;
  #block = 1;
  #exhaustedUntilMs = Number.NEGATIVE_INFINITY;
  #failedUntilMs = Number.NEGATIVE_INFINITY;
  #hasFailed = false;
  #waiting: Waiting | undefined;
  #asked: Asked | undefined;

  constructor(subject: QuotaSubject, place: QuotaPlace, period: PeriodOfUtc, owners: Owners) {
    this.subject = subject;
    this.place = place;
    this.period = period;
    this.#owners = owners;
  }

  /** The present limit. What was claimed by a higher one goes back. */
  limitBy(subject: QuotaSubject): void {
    const change = subject.limit.requests - this.subject.limit.requests;
    this.subject = subject;
    if (change > 0) this.#exhaustedUntilMs = Number.NEGATIVE_INFINITY;
    if (change < 0) this.void();
  }

  /** All that is held goes back, and what is known of the record counts no more. */
  void(): void {
    this.#seen = undefined;
    this.#exhaustedUntilMs = Number.NEGATIVE_INFINITY;
    if (this.#owner === undefined) return;
    this.#voided ??= this.stock;
    this.stock = { left: 0 };
  }

  voidIfIdle(nowMs: number): void {
    if (this.#asked || this.#waiting || this.#owner === undefined) return;
    if (nowMs - this.#usedMs >= quotaBounds.idleMs) this.void();
  }

  spend(cost: number, nowMs: number): boolean {
    if (this.stock.left < cost) return false;
    this.#usedMs = nowMs;
    this.stock.left -= cost;
    return true;
  }

  /** Whether the next block should be claimed now, so that nobody has to wait for it. */
  runsOut(nowMs: number): boolean {
    if (this.#asked || this.#owner === undefined || nowMs < this.#failedUntilMs) return false;
    return this.#block > 1 && this.stock.left < this.#block / 2;
  }

  /** Whether the store has said, a moment ago, that nothing is left. */
  isExhausted(nowMs: number): boolean {
    return nowMs < this.#exhaustedUntilMs;
  }

  retryAfterMs(unixMs: number): number {
    const endMs = Math.max(1, this.period.endMs - unixMs);
    const others = Object.entries(this.#seen?.holds ?? {}).filter(([id]) => this.#owners.isLive(id));
    const othersHold = others.some(([id, unspent]) => id !== this.#owner && unspent > 0);
    return Math.min(endMs, othersHold ? quotaBounds.idleMs : bounds.quotaRetryAfterMsMax);
  }

  /** Resolves once the store was asked for this cost, too. */
  wait(cost: number): Promise<void> {
    this.#waiting ??= { ...Promise.withResolvers<void>(), wanted: 0 };
    this.#waiting.wanted += cost;
    return this.#waiting.promise;
  }

  /** Whether the store must be asked for something as soon as it can be. */
  isDue(): boolean {
    return this.#voided !== undefined || this.#waiting !== undefined;
  }

  /** Whether the record has nothing of it, so that it can be forgotten. */
  isIdle(): boolean {
    return !this.#asked && !this.isDue() && this.#owner === undefined;
  }

  /** Begins what is due, if anything still is. Then `landed` or `failed` must follow. */
  begin(nowMs: number): QuotaChange | undefined {
    const [owner, stock] = [this.#owner, this.#voided];
    if (owner !== undefined && stock) {
      this.#asked = { stock };
      const unspent = stock.left;
      return (record) => returnQuota(record, owner, unspent);
    }
    if (!this.#waiting && !this.runsOut(nowMs)) return undefined;
    const claim = this.#claim();
    this.#asked = { claim, stock: this.stock, waiting: this.#waiting };
    this.#owner = claim.owner;
    this.#waiting = undefined;
    return (record) => claimQuota(record, claim);
  }

  #claim(): QuotaClaim {
    const { limit, requestsPerMinute } = this.subject;
    const held = this.stock.left;
    return {
      owner: this.#owners.owner(),
      isLive: this.#owners.isLive,
      limit: limit.requests,
      wanted: Math.max(0, (this.#waiting?.wanted ?? 0) - held),
      held,
      // While answers are lost, each claim may lose what it is given.
      blockMax: this.#hasFailed ? 1 : Math.max(1, Math.floor(requestsPerMinute / 6)),
    };
  }

  /** Returns whether it is due again. */
  landed(record: QuotaRecord, nowMs: number): boolean {
    const { claim, stock, waiting, isOutdated } = this.#answered();
    if (!isOutdated) this.#seen = record;
    this.#hasFailed = false;
    if (!claim) {
      this.#voided = undefined;
      this.#owner = undefined;
      return this.isDue();
    }
    const given = (record.holds[claim.owner] ?? 0) - claim.held;
    // Where it was voided meanwhile, this goes back, too.
    stock.left += given;
    const left = this.#leftInStore();
    this.#block = blockOf(left, claim.blockMax);
    const isExhausted = given < claim.wanted && left === 0 && !this.#voided;
    this.#exhaustedUntilMs = isExhausted ? nowMs + quotaBounds.askAgainMs : Number.NEGATIVE_INFINITY;
    waiting?.resolve();
    return this.isDue();
  }

  /** It is begun again when it is asked for, or with the next sweep. */
  failed(cause: unknown, nowMs: number): void {
    const { waiting } = this.#answered();
    this.#hasFailed = true;
    this.#failedUntilMs = nowMs + quotaBounds.askAgainMs;
    for (const each of [waiting, this.#waiting]) each?.reject(unavailable({ cause }));
    this.#waiting = undefined;
  }

  #answered(): Asked {
    const asked = this.#asked;
    if (!asked) throw new Error("nothing is under way");
    this.#asked = undefined;
    return asked;
  }

  /** Learns of the record after a grant, unless it is that of a period before. */
  granted(record: QuotaRecord): void {
    if (record.id !== this.place.id) return;
    if (this.#asked) this.#asked.isOutdated = true;
    this.#exhaustedUntilMs = Number.NEGATIVE_INFINITY;
    this.#seen = record;
  }

  #leftInStore(): number {
    const { claimed = 0, granted = 0 } = this.#seen ?? {};
    return Math.max(0, this.subject.limit.requests + granted - claimed);
  }

  /** Undefined while nothing is known of the record. */
  known(): QuotaState | undefined {
    return this.#seen && this.state();
  }

  state(): QuotaState {
    const { claimed = 0, granted = 0 } = this.#seen ?? {};
    return quotaStateOf(this.subject, this.period, { claimed, granted, held: this.stock.left });
  }
}
