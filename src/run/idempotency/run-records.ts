import { setImmediate } from "node:timers/promises";
import { type Clock, createRepeatedWork, ownTurn } from "../../base/clock.ts";
import { bounds } from "../../bounds.ts";
import type { Reservation } from "../../http/handler.ts";
import { overloaded } from "../../limit/byte-budget.ts";
import { unavailable } from "../../refusal/refusal.ts";
import { runBounds } from "../run-bounds.ts";
import { createRecordQuota } from "./record-quota.ts";
import { createRecordWriter, createRetryQueue } from "./record-writer.ts";
import type { RecordTotals, RunClaim, RunRecord, RunRecordStore } from "./run-record-store.ts";
import type { RunOutcome } from "./run-under-way.ts";

/**
 * Reads a kept text of so many bytes for a request, which reserves for it. A short request can ask
 * for a long text, so many may ask at once: each is read in a turn of its own. Throws OVERLOADED.
 */
export async function readKeptText(
  { reservation }: { readonly reservation: Reservation },
  textBytes: number,
  read: () => Promise<string | null>,
): Promise<string | null> {
  if (!reservation.reserve(textBytes)) throw overloaded();
  if (textBytes >= runBounds.longTextBytes) await ownTurn();
  return await read();
}

/**
 * The records of runs, within each team's quota. What the store can't take is written later, and
 * records that have expired are removed from time to time.
 */
export function createRunRecords(parts: {
  readonly clock: Clock;
  readonly store: RunRecordStore;
  readonly keptMs: number;
  /** True where other instances write to the store too. */
  readonly isShared?: boolean | undefined;
  /** How many records the team may have. */
  readonly recordsMaxOf: (teamId: string) => Promise<number>;
  /** Called with the cause when a change or a sweep could not be written. It is tried again. */
  readonly onWriteFailed: (cause: unknown) => void;
}) {
  const { clock, store, keptMs, onWriteFailed } = parts;
  const write = createRecordWriter(store);
  const quota = createRecordQuota({ store, sharedBy: parts.isShared ? { clock } : undefined });
  const retries = createRetryQueue(clock, write);
  const sweep = createRecordSweep({ clock, store, onRemoved: quota.removed, onFailed: onWriteFailed });
  const removals = new Map<string, Promise<void>>();

  async function writeOrRetry(teamId: string, retry: Parameters<typeof retries.add>[0]): Promise<void> {
    try {
      await write(retry.change);
      retry.done();
    } catch (cause) {
      onWriteFailed(cause);
      quota.forget(teamId);
      retries.add(retry);
    }
  }

  return {
    /**
     * Resolves with undefined once the claim is durable, or with the record that has its key
     * already. Throws UNAVAILABLE if it can't be written, or the team has no room for one more.
     */
    async claim(claim: RunClaim): Promise<RunRecord | undefined> {
      const { id, teamId, runId, state, createTimeMs } = claim;
      const recordsMax = await parts.recordsMaxOf(teamId);
      const createdUntilMs = createTimeMs - bounds.runRecordMinutes * 60_000;
      if (!(await quota.takeRecord(teamId, { recordsMax, createdUntilMs }))) {
        const found = await store.find(id);
        if (found) return found;
        throw unavailable({ problem: noRoom(recordsMax) });
      }
      try {
        const found = await write({ kind: "claim", id, claim });
        if (found) quota.giveRecord(teamId);
        return found;
      } catch (cause) {
        // It may be written all the same, and would hold the key for a run that never starts.
        const done = () => quota.forget(teamId);
        retries.add({ change: { kind: "release", id, runId, state }, untilMs: never, done });
        throw unavailable({ cause });
      }
    },
    /**
     * Writes what came of a run, unless `fail` came first. Resolves once the store took it or
     * failed: it is then written later. Calls `done` when it is written, or given up at `untilMs`
     * by the monotonic clock. Never rejects.
     */
    async end(
      { id, teamId, runId }: RunClaim,
      outcome: RunOutcome & { kind: "kept" },
      { untilMs, done }: { untilMs: number; done: () => void },
    ): Promise<void> {
      const state = outcome.state === "app_refused" ? "app_failed" : outcome.state;
      const whole = keptTextOf(outcome);
      const bytes = whole === null ? 0 : Buffer.byteLength(whole);
      const text = bytes > runBounds.keptTextBytesMax ? null : whole;
      const textBytes = text === null ? 0 : bytes;
      const expireTimeMs = clock.unixMs() + keptMs;
      if (textBytes > 0) await quota.takeText(teamId, textBytes).catch(onWriteFailed);
      const change = { kind: "end", id, runId, state, text, textBytes, expireTimeMs } as const;
      await writeOrRetry(teamId, { change, untilMs, done });
    },
    /** Frees the key, unless `fail` came first. Resolves and calls `done` as `end` does. */
    async release({ id, teamId, runId, state }: RunClaim, done: () => void): Promise<void> {
      const change = { kind: "release", id, runId, state } as const;
      await writeOrRetry(teamId, { change, untilMs: never, done });
      quota.giveRecord(teamId);
    },
    /** Writes that the run has failed, unless its owner has written what came of it. */
    async fail({ id, runId }: RunRecord): Promise<void> {
      const expireTimeMs = clock.unixMs() + keptMs;
      await write({ kind: "end", id, runId, state: "app_failed", text: null, textBytes: 0, expireTimeMs });
    },
    /** Removes a record that has expired, if it is still there. */
    removeExpired({ id, teamId, runId, state, textBytes }: RunRecord): Promise<void> {
      // All who met the record at once share its removal, so that it is counted once. To count the
      // team's records again would take long where there are many.
      const removal =
        removals.get(runId) ??
        write({ kind: "release", id, runId, state })
          .then(() => quota.removed(teamId, { records: 1, textBytes }))
          .finally(() => removals.delete(runId));
      removals.set(runId, removal);
      return removal;
    },
    /** The kept text of a run; null: it is no longer kept. */
    textOf: ({ id, runId }: RunRecord) => store.textOf(id, runId),
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
    async close(): Promise<void> {
      await sweep.close();
      await retries.close();
    },
  };
}

/** The output of the app, or its words if it refused. */
function keptTextOf(outcome: RunOutcome & { kind: "kept" }): string | null {
  if (outcome.state === "done") return outcome.text;
  return outcome.state === "app_refused" ? outcome.refusal.message : null;
}

/** A key that is freed late does no harm, and nothing large waits for it. */
const never = Number.POSITIVE_INFINITY;

function noRoom(recordsMax: number): string {
  return `The team has sent ${recordsMax} Idempotency-Keys within an hour, and no more are kept. Repeat the request later, or send it without a key.`;
}

/** Removes expired records from time to time. The timer does not keep the process alive. */
export function createRecordSweep({
  clock,
  store,
  onRemoved,
  onFailed,
  sweepMs = runBounds.recordSweepMs,
}: {
  clock: Clock;
  store: Pick<RunRecordStore, "deleteExpired">;
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
        const removed = await store.deleteExpired({ nowMs: clock.unixMs(), limit: runBounds.recordSweepMax });
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
