/** The record of a quota in one period, what changes it, its bounds, and the port of the store. */

import { z } from "zod";
import { filled, timeMs } from "../base/record-fields.ts";
import { fail } from "../refusal/refusal.ts";

const count = z.int().nonnegative();

export const quotaRecord = z.strictObject({
  /** Of the subject and the period, by `quotaRecordId`. */
  id: filled,
  teamId: filled,
  /** When the period began. */
  startTimeMs: timeMs,
  /** What instances have taken, and not given back. */
  claimed: count,
  /** What the period has beside its limit. */
  granted: count,
  grantIds: z.array(filled).readonly(),
  /** What each instance had not spent as of its last claim. That of one that is gone is spent. */
  holds: z.record(filled, count),
  /**
   * Greater with each change. It begins with the time at which the record is made: one that was
   * deleted and is made anew has none of its versions again, for which a late change may wait.
   */
  version: count,
});
export type QuotaRecord = Readonly<z.infer<typeof quotaRecord>>;

/** Which record, and what it is made with where it is missing. */
export type QuotaPlace = Pick<QuotaRecord, "id" | "teamId" | "startTimeMs" | "version">;

export function quotaRecordId(subjectId: string, periodId: string): string {
  return `${subjectId}/${periodId}`;
}

/** Returns the record as it should be, or the same one where nothing changes. */
export type QuotaChange = (record: QuotaRecord) => QuotaRecord;

/** The record after the change, with its next version; undefined where nothing changes. */
export function changedQuota(record: QuotaRecord, change: QuotaChange): QuotaRecord | undefined {
  const changed = change(record);
  return changed === record ? undefined : { ...changed, version: record.version + 1 };
}

export function emptyQuota(place: QuotaPlace): QuotaRecord {
  return { ...place, claimed: 0, granted: 0, grantIds: [], holds: {} };
}

/** One claim of an instance. */
export interface QuotaClaim {
  readonly owner: string;
  /** The limit of the period, without what was granted. */
  readonly limit: number;
  /** What callers wait for, beyond what is held. */
  readonly wanted: number;
  /** What the owner holds already, and has not spent. */
  readonly held: number;
  readonly blockMax: number;
  /**
   * Whether an instance with this id is known to serve. The holds of others are forgotten where
   * there are many: one that has just joined may not be known yet.
   */
  readonly isLive: (owner: string) => boolean;
}

/**
 * Takes a block, what callers wait for, or what is left: `claimed` never passes the limit and what
 * was granted. The owner's hold becomes what it held and what it was given.
 */
export function claimQuota(record: QuotaRecord, claim: QuotaClaim): QuotaRecord {
  const { owner, limit, wanted, held, blockMax, isLive } = claim;
  const left = limit + record.granted - record.claimed;
  const given = Math.max(0, Math.min(left, Math.max(wanted, blockOf(left, blockMax) - held)));
  if (given === 0 && (record.holds[owner] ?? 0) === held) return record;
  const others = Object.entries(record.holds);
  const kept = others.length < quotaBounds.holdsMax ? others : others.filter(([id]) => isLive(id));
  const holds = { ...Object.fromEntries(kept), [owner]: held + given };
  return { ...record, claimed: record.claimed + given, holds };
}

/**
 * Gives back what the owner has not spent, and forgets its hold. Where it has none this was done
 * before, and nothing changes.
 */
export function returnQuota(record: QuotaRecord, owner: string, unspent: number): QuotaRecord {
  const { [owner]: hold, ...holds } = record.holds;
  if (hold === undefined) return record;
  return { ...record, claimed: Math.max(0, record.claimed - unspent), holds };
}

export interface QuotaGrant {
  readonly requests: number;
  readonly requestId: string;
}

/** Adds to what the period was granted, once for each request id. */
export function grantQuota(record: QuotaRecord, { requests, requestId }: QuotaGrant): QuotaRecord {
  const { grantIds, granted } = record;
  if (grantIds.includes(requestId)) return record;
  if (grantIds.length >= quotaBounds.grantsMax) {
    const problem = `the team has ${quotaBounds.grantsMax} grants in this period. Raise its plan.`;
    throw fail("INVALID_ARGUMENT", { param: "team_id", problem });
  }
  return { ...record, granted: granted + requests, grantIds: [...grantIds, requestId] };
}

/** The size of a block: 1 below 100 requests left, and at most 10 s of what the minute allows. */
export function blockOf(left: number, blockMax: number): number {
  return Math.max(1, Math.min(Math.floor(left / 50), blockMax));
}

/** How much of a quota was given out. Promises as in `KeyStore`. */
export interface QuotaStore {
  /**
   * Changes each of the records, which is made where it is missing, and answers with it as it is
   * then: each by itself, but in as few writes as the store can. A change may be asked for several
   * times, with the record as it is by then. Where its answer is lost it may still take effect,
   * also later, as long as nothing else has changed the record.
   */
  change(
    changes: readonly { readonly place: QuotaPlace; readonly change: QuotaChange }[],
  ): Promise<PromiseSettledResult<QuotaRecord>[]>;
  /** As `change`, for a grant, which the audit log writes down. */
  grant(place: QuotaPlace, grant: QuotaGrant): Promise<QuotaRecord>;
  find(id: string): Promise<QuotaRecord | undefined>;
  /** Removes records of periods that began before, at most `limit`. Returns how many. */
  deleteBefore(query: { beforeMs: number; limit: number }): Promise<number>;
  /** Removes records of the team in the same way. */
  deleteOfTeam(teamId: string, limit: number): Promise<number>;
}

/** The bounds of quotas. */
export const quotaBounds = {
  /** Quotas that an instance holds something of, or knows. */
  subjectsMax: 100_000,
  /** After so long without a request, what is held of a quota goes back. */
  idleMs: 10_000,
  /** Where nothing is left, the store is asked again at most so often, and so are its failures. */
  askAgainMs: 1_000,
  /** Changes in one write: a write of the embedded store stops all other work. */
  changesAtOnce: 100,
  /** How often a change in MongoDB is tried again because another came first. */
  changeTriesMax: 50,
  /** Holds in a record, before those of instances that are gone are forgotten. */
  holdsMax: 16,
  /** Grants in one period. */
  grantsMax: 1_000,
  /** How long records are kept: a clock that was wrong may come back to their period. */
  keptMs: 100 * 86_400_000,
  keeperMs: 3_600_000,
  removedAtOnce: 500,
} as const;
