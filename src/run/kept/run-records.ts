import { setImmediate } from "node:timers/promises";
import { type Clock, createRepeatedWork } from "../../base/clock.ts";
import { bounds } from "../../bounds.ts";
import { unavailable } from "../../refusal/refusal.ts";
import { runBounds } from "../run-bounds.ts";
import { createRecordQuota } from "./record-quota.ts";
import { createRecordWriter, createRetryQueue, textBytesOf } from "./record-writer.ts";
import type { RecordTotals, RunEnd, RunRecord, RunStore } from "./run-store.ts";

export type RunRecords = ReturnType<typeof createRunRecords>;

/**
 * The records of runs, within each team's quota. What the store can't take is written later, and
 * records that have expired are removed from time to time.
 */
export function createRunRecords(parts: {
  readonly clock: Clock;
  readonly store: RunStore;
  /** Other instances write to the store too. Their wall clocks may differ from this one's. */
  readonly isShared: boolean;
  /** How many records the team may have. */
  readonly recordsMaxOf: (teamId: string) => Promise<number>;
  /** Called with the cause when a change or a sweep could not be written. It is tried again. */
  readonly onWriteFailed: (cause: unknown) => void;
}) {
  const { clock, store, onWriteFailed } = parts;
  // By the clock of every instance, a key is kept for as long as was promised.
  const expiredMs = () => clock.unixMs() - (parts.isShared ? runBounds.clockSkewMsMax : 0);
  const write = createRecordWriter(store);
  const quota = createRecordQuota({ store, sharedBy: parts.isShared ? { clock } : undefined });
  const retries = createRetryQueue(write);
  const sweep = createRecordSweep({ store, expiredMs, onRemoved: quota.removed, onFailed: onWriteFailed });
  const removals = new Map<string, Promise<void>>();

  async function insert(record: RunRecord): Promise<RunRecord | undefined> {
    const { id, keyHash, teamId, createTimeMs } = record;
    if (retries.size() >= runBounds.unwrittenRunsMax) throw unavailable();
    const recordsMax = await parts.recordsMaxOf(teamId);
    const createdUntilMs = createTimeMs - bounds.runRecordMinutes * 60_000;
    if (!(await quota.takeRecord(teamId, { recordsMax, createdUntilMs }))) {
      const found = await store.findByKey(keyHash);
      if (found) return found;
      throw unavailable({ problem: noRoom(recordsMax) });
    }
    try {
      const found = await write({ kind: "insert", id, record });
      if (found) quota.giveRecord(teamId);
      return found;
    } catch (cause) {
      // It may be written all the same, and would hold the key for a run that never starts.
      removeLater(record);
      throw unavailable({ cause });
    }
  }

  const removalOf = ({ id }: RunRecord) => ({ kind: "remove", id, state: "running" }) as const;

  function removeLater(record: RunRecord): void {
    void retries.settle(removalOf(record)).then(() => quota.forget(record.teamId));
  }

  /**
   * All who met the record at once share its removal, so that it is counted once. To count the
   * team's records again would take long where there are many.
   */
  function removeExpired({ id, teamId, state, textBytes }: RunRecord): Promise<void> {
    const removal =
      removals.get(id) ??
      write({ kind: "remove", id, state })
        .then(() => quota.removed(teamId, { records: 1, textBytes: textBytes ?? 0 }))
        .finally(() => removals.delete(id));
    removals.set(id, removal);
    return removal;
  }

  return {
    /**
     * Resolves with undefined once the record is durable, or with the one that has its key already.
     * Throws UNAVAILABLE if it can't be written, or the team has no room for one more.
     */
    async insertOrFind(record: RunRecord): Promise<RunRecord | undefined> {
      for (let tries = 0; tries < bounds.claimTriesMax; tries++) {
        const found = await insert(record);
        if (!found || found.expireTimeMs > expiredMs()) return found;
        await removeExpired(found);
      }
      throw unavailable();
    },
    /**
     * Ends the run, unless it has an end. Resolves once that is durable: with the record that has
     * another end, or undefined. Calls `onDelayed` where the store can't take it now, and tries
     * again until it does. Never rejects.
     */
    async end({ id, teamId }: RunRecord, end: RunEnd, onDelayed: () => void): Promise<RunRecord | undefined> {
      const change = { kind: "end", id, end } as const;
      const textBytes = textBytesOf(change);
      if (textBytes > 0) await quota.takeText(teamId, textBytes).catch(onWriteFailed);
      const standing = await write(change).catch((cause: unknown) => {
        onWriteFailed(cause);
        quota.forget(teamId);
        onDelayed();
        return retries.settle(change);
      });
      if (standing) quota.removed(teamId, { records: 0, textBytes });
      return standing;
    },
    /** As `end`, without a text and a second try. Rejects as the store does. */
    endNow: (id: string, end: RunEnd) => write({ kind: "end", id, end }),
    /**
     * Removes the record of a run that its app has not got, unless it has an end. Resolves once the
     * store took it or failed: it is then removed later. Never rejects.
     */
    async remove(record: RunRecord): Promise<void> {
      try {
        await write(removalOf(record));
        quota.giveRecord(record.teamId);
      } catch (cause) {
        onWriteFailed(cause);
        removeLater(record);
      }
    },
    /**
     * Deletes all records of the team, so many at once that no write is long. Calls `before` before
     * each.
     */
    async deleteOfTeam(teamId: string, before: () => void): Promise<void> {
      for (let isMore = true; isMore; ) {
        before();
        isMore = (await store.deleteAll(teamId, bounds.deletedAtOnce)) > 0;
        // A write of the embedded store stops all other work, so other work goes on in between.
        await setImmediate();
      }
      quota.forget(teamId);
    },
    /** Starts to remove expired records. */
    start: sweep.start,
    /** Tries once more to write what is left. */
    async close(): Promise<void> {
      await retries.close();
      await sweep.close();
    },
  };
}

function noRoom(recordsMax: number): string {
  return `The team has started ${recordsMax} runs with an Idempotency-Key or in the background within an hour, and no more are kept. Repeat the request later, or send it without either.`;
}

/** Removes expired records from time to time. The timer does not keep the process alive. */
export function createRecordSweep({
  store,
  expiredMs,
  onRemoved,
  onFailed,
  sweepMs = runBounds.recordSweepMs,
}: {
  store: Pick<RunStore, "deleteExpired">;
  /** The time, by the wall clock, up to which records have expired. */
  expiredMs: () => number;
  /** Called with what was removed of a team. */
  onRemoved: (teamId: string, removed: RecordTotals) => void;
  /** Called with the cause when a sweep fails. The next sweep removes what is left. */
  onFailed: (cause: unknown) => void;
  sweepMs?: number;
}) {
  let isClosed = false;

  /** In small batches: a write of the embedded store stops all other work. */
  async function sweep(): Promise<void> {
    try {
      for (let isMore = true; isMore && !isClosed; ) {
        const removed = await store.deleteExpired({ nowMs: expiredMs(), limit: runBounds.recordSweepMax });
        for (const [teamId, totals] of removed) onRemoved(teamId, totals);
        isMore = removed.size > 0;
        await setImmediate();
      }
    } catch (cause) {
      onFailed(cause);
    }
  }

  const sweeps = createRepeatedWork(sweep, sweepMs);
  return {
    start: sweeps.start,
    /** Waits for the sweep that runs, which then ends early. */
    async close(): Promise<void> {
      isClosed = true;
      await sweeps.stop();
    },
  };
}
