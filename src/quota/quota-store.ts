/** The record of a quota in one period, its bounds, and the port of the store. */

import { z } from "zod";
import { filled, timeMs } from "../base/record-fields.ts";
import { quotaPeriods } from "../settings/config.ts";

const count = z.int().nonnegative();

/** What an instance holds: requests that it has claimed and may still give back. */
const hold = z.strictObject({ seq: z.int().positive(), unspent: count });

export const quotaRecord = z.strictObject({
  /** Of the subject and the period, by `quotaRecordId`. */
  id: filled,
  teamId: filled,
  period: z.enum(quotaPeriods),
  /** When the period began. */
  startTimeMs: timeMs,
  /** What instances have taken, and not given back. */
  claimed: count,
  /** What the period has beside its limit. */
  granted: count,
  grantIds: z.array(filled).readonly(),
  /** By owner, as of its last claim. That of an owner that is gone is spent. */
  holds: z.record(filled, hold),
});
export type QuotaRecord = Readonly<z.infer<typeof quotaRecord>>;

/** Which record, and what it is made with where it is missing. */
export type QuotaPlace = Pick<QuotaRecord, "id" | "teamId" | "period" | "startTimeMs">;

export function quotaRecordId(subjectId: string, periodId: string): string {
  return `${subjectId}/${periodId}`;
}

/** One claim of an instance. */
export interface QuotaClaim {
  readonly place: QuotaPlace;
  /** The limit of the period, without what was granted. */
  readonly limit: number;
  /** What callers wait for, beyond what is held. */
  readonly wanted: number;
  /** What the owner holds already, and has not spent. */
  readonly held: number;
  readonly blockMax: number;
  /** An instance. Its id has no dot. */
  readonly owner: string;
  /** Greater than that of each earlier claim of the owner. */
  readonly seq: number;
  /** Owners that are gone: their holds are forgotten. */
  readonly gone: readonly string[];
  /** The record as the owner saw it last, if it did: it may be out of date. */
  readonly seen?: Pick<QuotaRecord, "claimed" | "granted"> | undefined;
}

/** What a claim was given, 0 or more, and the record after it. */
export interface QuotaGiven {
  readonly given: number;
  readonly record: Pick<QuotaRecord, "claimed" | "granted" | "holds">;
}

export interface QuotaGiveBack {
  readonly id: string;
  readonly owner: string;
  /** Of the owner's last claim that was given anything. */
  readonly seq: number;
  readonly unspent: number;
}

/** How much of a quota was given out. Promises as in `KeyStore`. */
export interface QuotaStore {
  /**
   * Takes a block for each claim (`blockOf`), or what is left where it is less, all in as few
   * writes as the store can. `claimed` never passes the limit and what was granted. The owner's
   * hold becomes what it held and what it was given. Where nothing is left, nothing is written. A
   * claim whose answer is lost may take effect, also later: what it took then is spent.
   */
  claim(claims: readonly QuotaClaim[]): Promise<PromiseSettledResult<QuotaGiven>[]>;
  /**
   * Gives back what was not spent, and forgets the hold, where the hold is still that of the claim
   * with this `seq`. So an order that is repeated gives back once.
   */
  giveBack(orders: readonly QuotaGiveBack[]): Promise<void>;
  /** Adds to what the period was granted, once for each request id. Returns the record after it. */
  grant(place: QuotaPlace, grant: { requests: number; requestId: string }): Promise<QuotaRecord>;
  find(id: string): Promise<QuotaRecord | undefined>;
  /** When the newest period of this kind began that has a record; undefined if none has. */
  newestStartMs(period: QuotaRecord["period"]): Promise<number | undefined>;
  /** Removes records of periods that began before, at most `limit`. Returns how many. */
  deleteBefore(query: { beforeMs: number; limit: number }): Promise<number>;
  /** Removes records of the team in the same way. */
  deleteOfTeam(teamId: string, limit: number): Promise<number>;
}

/** The size of a block: 1 below 100 requests left, and at most 10 s of what the minute allows. */
export function blockOf(left: number, blockMax: number): number {
  return Math.max(1, Math.min(Math.floor(left / 50), blockMax));
}

/** What the record gives to the claim. */
export function givenOf(
  { claimed, granted }: Pick<QuotaRecord, "claimed" | "granted">,
  { limit, wanted, held, blockMax }: QuotaClaim,
): number {
  const left = limit + granted - claimed;
  return Math.max(0, Math.min(left, Math.max(wanted, blockOf(left, blockMax) - held)));
}

/** The bounds of quotas. */
export const quotaBounds = {
  /** Quotas that an instance holds something of, or knows. */
  subjectsMax: 100_000,
  /** After so long without a request, what is held of a quota goes back. */
  idleMs: 10_000,
  /** Where nothing is left, the store is asked again at most so often, and so are its failures. */
  askAgainMs: 1_000,
  /** Claims in one write: a write of the embedded store stops all other work. */
  claimsAtOnce: 100,
  /** How often a claim of MongoDB is tried again because another came first. */
  claimTriesMax: 16,
  /** Grants in one period. */
  grantsMax: 1_000,
  /** Holds in one record, before those of instances that are gone are forgotten. */
  holdsMax: 64,
  /** How long records are kept: a clock that was wrong may come back to their period. */
  keptMs: 100 * 86_400_000,
  keeperMs: 3_600_000,
  removedAtOnce: 500,
} as const;
