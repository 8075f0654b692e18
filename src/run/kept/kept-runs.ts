/**
 * How a run with a record works: one with an Idempotency-Key, or in the background. Its record is
 * durable before the app is called. To insert it is to claim its key: no second request can, on any
 * instance. The run then belongs to nobody: it goes on when its caller leaves, and the instance
 * that took it on writes its end. Every end is written on the condition that the run has none, so
 * the first one stands. To cancel a run is to write its end: the instance that runs it gets the
 * news, or finds it in the store, and closes the app's call. A run whose instance is gone is never
 * started again: its end is RUN_INTERRUPTED. The next start of a process that has the store for
 * itself writes that, and in a fleet any other instance once the lease is over. If nothing can have
 * reached the app, the key is free again.
 */

import type { Call } from "../../auth/principal.ts";
import { type Clock, createRepeatedWork, systemTimers, type Timers } from "../../base/clock.ts";
import { bounds } from "../../bounds.ts";
import { type ByteBudget, overloaded } from "../../limit/byte-budget.ts";
import { fail, type Refusal, unavailable } from "../../refusal/refusal.ts";
import { runBounds } from "../run-bounds.ts";
import type { RunSlots } from "../run-slots.ts";
import { inputCharacters, type Runner, type RunOutput } from "../runner.ts";
import type { WatchRights } from "../watch-rights.ts";
import { createLostOwners } from "./lost-owners.ts";
import { cancelled, ended, endOf, interrupted, type RunWithText } from "./run-ends.ts";
import { createRunRecords } from "./run-records.ts";
import type { RunEnd, RunRecord, RunStore, RunsUnderWay } from "./run-store.ts";
import { createRunWaits } from "./run-waits.ts";
import { createRunsUnderWay, type KeptRequest } from "./runs-under-way.ts";

export interface StartedRun {
  readonly record: RunRecord;
  /**
   * The app's output, or the refusal of the run. Absent where an earlier request began the run: its
   * Idempotency-Key stands for it.
   */
  readonly output?: Promise<RunOutput>;
}

export type KeptRuns = ReturnType<typeof createKeptRuns>;

export function createKeptRuns(parts: {
  readonly clock: Clock;
  readonly timers?: Timers;
  readonly store: RunStore;
  /** Runs the app. One in the background has its slot already. */
  readonly run: Runner;
  /** Of runs in the background. */
  readonly slots: RunSlots;
  readonly bytes: ByteBudget;
  /** How long a run is kept after its end. */
  readonly keptMs: number;
  /** How many records the team may have. */
  readonly recordsMaxOf: (teamId: string) => Promise<number>;
  /** The name of this instance; undefined while it may take on no run. */
  readonly owner: () => string | undefined;
  /**
   * The names of all instances that may write the ends of their runs, as they were seen within
   * `ownerLookMs`; undefined if this one does not know now. Absent: this process has the store for
   * itself.
   */
  readonly liveOwners?: (() => ReadonlySet<string> | undefined) | undefined;
  /** Announces to other instances that a run has its end: this one, or any. Never throws. */
  readonly announceEnd: (runId?: string) => void;
  readonly watchRights: WatchRights;
  /** Called with the state of each run in the background, once its end is written. */
  readonly onEnded: (state: RunEnd["state"]) => void;
  /** Called with the cause when an end or a sweep could not be written. It is tried again. */
  readonly onWriteFailed: (cause: unknown) => void;
}) {
  const { clock, timers = systemTimers, store, bytes, keptMs, liveOwners, onWriteFailed } = parts;
  const records = createRunRecords({ ...parts, isShared: liveOwners !== undefined });
  const underWay = createRunsUnderWay({ ...parts, records, onLeft: (id, end) => waits.ended(id, end) });
  const waits = createRunWaits({
    store,
    timers,
    isHere: (id) => underWay.has(id),
    watchRights: parts.watchRights,
  });
  let isClosing = false;

  const endNow = (refusal: Refusal) => endOf({ refusal }, { endTimeMs: clock.unixMs(), keptMs });

  /**
   * Resolves once the record is durable and a run in the background has its slot. The run then goes
   * on, whatever becomes of its caller. Throws IDEMPOTENCY_KEY_REUSED if the key was sent with
   * another input, APP_BUSY, OVERLOADED, the refusal of `checkRight`, and UNAVAILABLE if the record
   * can't be written, or the team has no room for it: nothing has then reached the app, and nothing
   * is kept.
   */
  async function start(request: KeptRequest, call: Call): Promise<StartedRun> {
    const owner = parts.owner();
    if (owner === undefined || isClosing) throw unavailable();
    const reservation = bytes.open(request.teamId);
    try {
      if (!reservation.reserve(inputCharacters(request))) throw overloaded();
      const record = recordOf(request, { owner, createTimeMs: clock.unixMs(), keptMs });
      // Many repeats of a run of this instance wait for it together: they need no write each.
      const found = underWay.findByKey(record.keyHash) ?? (await records.insertOrFind(record));
      if (!found) {
        const end = underWay.add(record);
        const releaseSlot = await takeSlot(request, record);
        return { record, output: underWay.begin(record, { request, call, end, reservation, releaseSlot }) };
      }
      if (found.fingerprint !== record.fingerprint) throw fail("IDEMPOTENCY_KEY_REUSED");
      reservation.release();
      return { record: found };
    } catch (thrown) {
      reservation.release();
      throw thrown;
    }
  }

  /** Looks once more whether the run may begin. Otherwise its record goes, and its key is free. */
  async function takeSlot({ app, teamId, ...request }: KeptRequest, record: RunRecord): Promise<() => void> {
    let releaseSlot = () => {};
    try {
      if (request.listed) releaseSlot = parts.slots.acquire(app, teamId);
      await request.checkRight();
      // Others may take this instance for gone by now, and would give the run an end.
      if (parts.owner() !== record.owner) throw unavailable();
      return releaseSlot;
    } catch (thrown) {
      releaseSlot();
      await records.remove(record);
      underWay.leave(record);
      throw thrown;
    }
  }

  /** Ends these runs in the background, wherever they are. Calls `before` before each write. */
  async function cancelAll(runs: RunsUnderWay, before: () => void = () => {}): Promise<void> {
    if (await endAll({ ...runs, listed: true }, { end: endNow(cancelled()), before })) parts.announceEnd();
  }

  /** Returns whether there were any. */
  async function endAll(
    runs: RunsUnderWay,
    { end, before }: { readonly end: RunEnd; readonly before: () => void },
  ): Promise<boolean> {
    for (let isAny = false; ; isAny = true) {
      before();
      const ids = await store.endAll(runs, end, bounds.deletedAtOnce);
      if (ids.length === 0) return isAny;
      for (const id of ids) stop(id);
    }
  }

  /** Closes the app's call of a run of this instance that has an end. */
  function stop(id: string): boolean {
    const isHere = underWay.stop(id);
    waits.ended(id);
    return isHere;
  }

  /** Stops the runs of this instance that another one gave an end. */
  async function stopEnded(): Promise<void> {
    const ids = underWay.ids();
    if (ids.length === 0) return;
    const running = new Set(await store.stillRunning(ids));
    for (const id of ids) if (!running.has(id)) stop(id);
  }

  async function interrupt(owner: string): Promise<void> {
    await endAll({ owner }, { end: endNow(interrupted()), before: () => {} });
  }

  const endLeftBehind = liveOwners && createLostOwners({ store, liveOwners, interrupt });
  const looks = createRepeatedWork(async () => {
    await stopEnded().then(endLeftBehind).catch(onWriteFailed);
  }, runBounds.ownerLookMs);

  return {
    start,
    find: store.find,
    textOf: store.textOf,
    list: store.list,
    wait: waits.wait,
    /** Resolves with the run once it has a durable end: CANCELLED, or an earlier one. */
    async cancel(record: RunRecord): Promise<RunWithText> {
      const end = endNow(cancelled());
      const standing = await records.endNow(record.id, end);
      if (standing) return standing;
      if (!stop(record.id)) parts.announceEnd(record.id);
      return ended(record, end);
    },
    cancelAll,
    /** Ends the team's runs, and deletes what is kept of them. Calls `before` before each write. */
    async deleteOfTeam(teamId: string, before: () => void): Promise<void> {
      await cancelAll({ teamId }, before);
      await records.deleteOfTeam(teamId, before);
    },
    /** Another instance has written the end of this run, or without one of any. Never throws. */
    endedElsewhere(id?: string): void {
      if (id === undefined) stopEnded().catch(onWriteFailed);
      else stop(id);
    },
    state: underWay.state,
    /**
     * Call it before any run is taken on. Where this process has the store for itself, the runs of
     * earlier ones get their end.
     */
    async open(): Promise<void> {
      if (liveOwners) return;
      for (const owner of await store.owners()) await interrupt(owner);
    },
    /** Starts to look for runs that were left behind, and to remove expired ones. */
    begin(): void {
      records.start();
      if (liveOwners) looks.start();
      if (liveOwners) waits.pollStore();
    },
    /** Answers all that wait for the end of a run that another request began. */
    endWaits: waits.close,
    idle: underWay.idle,
    /** Writes what is left. Call it when the app's calls are closed. */
    async close(): Promise<void> {
      isClosing = true;
      waits.close();
      await records.close();
      await underWay.idle();
      await looks.stop();
    },
  };
}

function recordOf(
  { runId, teamId, app, keyId, listed, claim }: KeptRequest,
  { owner, createTimeMs, keptMs }: Pick<RunRecord, "owner" | "createTimeMs"> & { readonly keptMs: number },
): RunRecord {
  return {
    id: runId,
    ...(claim ?? { keyHash: runId, fingerprint: "" }),
    listed,
    teamId,
    appId: app.id,
    keyId,
    state: "running",
    owner,
    textBytes: null,
    error: null,
    createTimeMs,
    endTimeMs: null,
    // Should nobody ever write its end.
    expireTimeMs: createTimeMs + (listed ? app.backgroundTimeoutMs : app.timeoutMs) + keptMs,
  };
}
