/**
 * A lock of one instance of a fleet: a document, which its holder renews. Where the holder crashed,
 * the document stands still, and the next instance takes it.
 */

import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../../base/clock.ts";
import { bounds } from "../../bounds.ts";
import { unavailable } from "../../refusal/refusal.ts";
import { checkRecord } from "../records.ts";
import type { ReadConcernOptions } from "./connection.ts";
import { type Collections, storedInstance } from "./documents.ts";
import { isDuplicate, type StoreCall } from "./store-call.ts";

export interface Lock {
  /** True while no other instance can have taken the lock. Cheap. */
  isValid(): boolean;
  /** Leaves the lock to the next one. Never throws, and may be repeated. */
  release(): Promise<void>;
}

export interface LockTimes {
  /** How often the holder renews the document, and how often one that waits reads it. */
  readonly renewMs: number;
  /** How long the lock stays valid after its last successful renewal was sent. */
  readonly lockMs: number;
  /** How long the document must be seen unchanged before it is taken: well over `lockMs`. */
  readonly lapseMs: number;
  readonly waitMsMax: number;
}

/**
 * Takes the lock. If another instance has it, waits until that one releases it, or until its
 * document stayed unchanged for `lapseMs` by this process's own monotonic clock. Throws
 * UNAVAILABLE after `waitMsMax`.
 */
export async function takeLock(
  records: LockRecords,
  parts: {
    readonly clock: Clock;
    /** A new one for every attempt: a late message of an earlier attempt must change nothing. */
    readonly newIncarnation: () => string;
    readonly times: LockTimes;
  },
): Promise<Lock> {
  const { clock, newIncarnation, times } = parts;
  const startMs = clock.monotonicMs();
  let seen: (LockRecord & { readonly sinceMs: number }) | undefined;
  for (;;) {
    const incarnation = newIncarnation();
    // The lock counts from before anything was sent, so it ends before a successor may take over.
    const sentMs = clock.monotonicMs();
    const record = await records.find();
    if (!record) {
      if (await records.create(incarnation)) return holdLock(records, parts, { incarnation, sentMs });
    } else if (seen?.incarnation !== record.incarnation || seen.beat !== record.beat) {
      seen = { ...record, sinceMs: clock.monotonicMs() };
    } else if (sentMs - seen.sinceMs >= times.lapseMs && (await records.replace(record, incarnation))) {
      return holdLock(records, parts, { incarnation, sentMs });
    }
    const waitedMs = clock.monotonicMs() - startMs;
    if (waitedMs >= times.waitMsMax) {
      throw unavailable({ cause: new Error(`another instance kept a lock for ${waitedMs} ms`) });
    }
    await sleep(times.renewMs);
  }
}

function holdLock(
  records: LockRecords,
  { clock, times }: { readonly clock: Clock; readonly times: LockTimes },
  { incarnation, sentMs }: { readonly incarnation: string; readonly sentMs: number },
): Lock {
  let renewedMs = sentMs;
  let over = false;
  const stop = new AbortController();
  const renewing = renewUntilStopped();

  async function renewUntilStopped(): Promise<void> {
    while (!over) {
      await sleep(times.renewMs, undefined, { ref: false, signal: stop.signal }).catch(() => {});
      if (over) return;
      const sentMs = clock.monotonicMs();
      // A renewal that fails is tried again: meanwhile the lock runs out.
      const isRenewed = await records.renew(incarnation).catch(() => undefined);
      if (isRenewed) renewedMs = sentMs;
      else over ||= isRenewed === false;
    }
  }

  return {
    isValid: () => !over && clock.monotonicMs() - renewedMs < times.lockMs,
    async release() {
      over = true;
      stop.abort();
      await renewing;
      // Where the document can't be removed, it lapses by itself.
      await records.remove(incarnation).catch(() => {});
    },
  };
}

/** What the document of a lock says of its holder. */
export interface LockRecord {
  /** New for every attempt to take it. */
  readonly incarnation: string;
  /** Goes up by one with every renewal. */
  readonly beat: number;
}

/** The document of one lock. Each step is atomic and durable. Throws as `KeyStore` does. */
export interface LockRecords {
  /** Undefined where there is none. */
  find(): Promise<LockRecord | undefined>;
  /** Writes a record with beat 1 where there is none; false where there is one. */
  create(incarnation: string): Promise<boolean>;
  /** Replaces `seen` by a record with beat 1; false where what is stored does not equal `seen`. */
  replace(seen: LockRecord, incarnation: string): Promise<boolean>;
  /** Raises the beat by one; false where the record is not of this incarnation. */
  renew(incarnation: string): Promise<boolean>;
  /** Removes the record if it is of this incarnation. */
  remove(incarnation: string): Promise<void>;
}

export function createLockRecords(
  { instances }: Pick<Collections, "instances">,
  id: string,
  { call, readOptions }: { readonly call: StoreCall; readonly readOptions: ReadConcernOptions },
): LockRecords {
  const only = { _id: { $eq: id } };
  const of = (incarnation: string) => ({ ...only, incarnation: { $eq: incarnation } });
  return {
    async find() {
      const document = await call(() => instances.findOne(only, readOptions));
      if (!document) return undefined;
      const { incarnation, beat } = checkRecord(storedInstance, document, `instances/${id}`);
      return { incarnation, beat };
    },
    async create(incarnation) {
      try {
        await call(() => instances.insertOne({ _id: id, incarnation, beat: 1 }));
        return true;
      } catch (thrown) {
        if (isDuplicate(thrown)) return false;
        throw thrown;
      }
    },
    async replace(seen, incarnation) {
      const unchanged = { ...of(seen.incarnation), beat: { $eq: seen.beat } };
      const outcome = await call(() => instances.updateOne(unchanged, { $set: { incarnation, beat: 1 } }));
      return outcome.matchedCount === 1;
    },
    async renew(incarnation) {
      const outcome = await call(() => instances.updateOne(of(incarnation), { $inc: { beat: 1 } }));
      return outcome.matchedCount === 1;
    },
    async remove(incarnation) {
      await call(() => instances.deleteOne(of(incarnation)));
    },
  };
}

/** `FleetStore.lockTeam` by a lock for each id. One that a crash left lapses. */
export function createLockTeam(
  collections: Collections,
  parts: {
    readonly clock: Clock;
    readonly newIncarnation: () => string;
    readonly call: StoreCall;
    readonly readOptions: ReadConcernOptions;
    readonly times?: LockTimes;
  },
): (teamId: string) => Promise<Lock> {
  const { clock, newIncarnation, times = teamLockTimes } = parts;
  return (teamId) =>
    takeLock(createLockRecords(collections, `team/${teamId}`, parts), { clock, newIncarnation, times });
}

const teamLockTimes: LockTimes = {
  renewMs: bounds.teamMutexRenewMs,
  lockMs: bounds.teamMutexHoldMs,
  lapseMs: bounds.teamMutexLapseMs,
  waitMsMax: bounds.teamMutexWaitMsMax,
};
