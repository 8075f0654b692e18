/**
 * How a run in the background works. Its record is durable before its caller is answered and before
 * the app is called. It belongs to the instance that took it on, which writes its end. Every end is
 * written on the condition that the run has none, so only the first counts, and a caller gets an
 * end only once it is written. To cancel a run is to write its end: the instance that runs it gets
 * the news, or finds it in the store, and closes the app's call. A run whose instance is gone is
 * never started again: its end is RUN_INTERRUPTED. The next start of a process that has the store
 * for itself writes that, and in a fleet any other instance once the lease is over.
 */

import type { AppRecord } from "../../apps/app-store.ts";
import type { Call } from "../../auth/principal.ts";
import { type Clock, createRepeatedWork, systemTimers, type Timers } from "../../base/clock.ts";
import { bounds } from "../../bounds.ts";
import { readTraceContext } from "../../http/trace-context.ts";
import { type ByteBudget, overloaded, type TeamReservation } from "../../limit/byte-budget.ts";
import { rowOf } from "../../refusal/reasons.ts";
import { fail, type Refusal, unavailable } from "../../refusal/refusal.ts";
import type { BackgroundClaim } from "../idempotency/idempotent-runs.ts";
import { createRecordQuota } from "../idempotency/record-quota.ts";
import { createRecordSweep } from "../idempotency/run-records.ts";
import { outcomeOf, type RunOutcome } from "../idempotency/run-under-way.ts";
import { runBounds } from "../run-bounds.ts";
import type { RunSlots } from "../run-slots.ts";
import type { Run, Runner } from "../runner.ts";
import type { CheckRight, WatchRights } from "../watch-rights.ts";
import type {
  BackgroundEnd,
  BackgroundRecord,
  BackgroundRunStore,
  RunFault,
  RunsUnderWay,
} from "./background-store.ts";
import { createRunWaits } from "./run-waits.ts";

/** A run to be started. */
export interface BackgroundRequest {
  readonly runId: string;
  readonly teamId: string;
  readonly keyId: string;
  readonly app: AppRecord;
  readonly text: string;
  /** Throws if the key or its team may not run the app any more. */
  readonly checkRight: CheckRight;
  /** Of its Idempotency-Key, if it has one. */
  readonly claim?: BackgroundClaim | undefined;
}

export type BackgroundRuns = ReturnType<typeof createBackgroundRuns>;

export function createBackgroundRuns(parts: {
  readonly clock: Clock;
  readonly timers?: Timers;
  readonly store: BackgroundRunStore;
  /** Runs the app without a slot. */
  readonly run: Runner;
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
  /** Called with the state of each run of this instance, once its end is written. */
  readonly onEnded: (state: BackgroundEnd["state"]) => void;
  /** Called with the cause when an end or a sweep could not be written. It is tried again. */
  readonly onWriteFailed: (cause: unknown) => void;
}) {
  const { clock, timers = systemTimers, store, bytes, keptMs, onWriteFailed } = parts;
  const { liveOwners } = parts;
  const quota = createRecordQuota({ store, sharedBy: liveOwners && { clock } });
  const waits = createRunWaits({ store, timers, watchRights: parts.watchRights });
  const sweep = createRecordSweep({ clock, store, onRemoved: quota.removed, onFailed: onWriteFailed });
  const underWay = new Map<string, UnderWay>();
  const closing = Promise.withResolvers<void>();
  let isClosing = false;
  let whenIdle: (() => void)[] = [];
  let suspects: ReadonlySet<string> = new Set();

  function endNow(facts: Pick<BackgroundEnd, "state" | "text" | "error">): BackgroundEnd {
    const endTimeMs = clock.unixMs();
    return { ...facts, endTimeMs, expireTimeMs: endTimeMs + keptMs };
  }

  const cancelled = () => endNow(unsuccessful("cancelled", fail("RUN_CANCELLED")));
  const interrupted = () => endNow(unsuccessful("failed", fail("RUN_INTERRUPTED")));

  /**
   * Resolves with the record once it is durable and the run has its slot. The run then goes on,
   * whatever becomes of its caller. Throws APP_BUSY, OVERLOADED, the refusal of `checkRight`, and
   * UNAVAILABLE if the record can't be written, or the team has no room for it: nothing has then
   * reached the app, and nothing is kept. While the store fails, no refused caller waits for it.
   */
  async function start(request: BackgroundRequest, call: Call): Promise<BackgroundRecord> {
    const { runId, teamId, keyId, app } = request;
    const owner = parts.owner();
    if (owner === undefined || isClosing) throw unavailable();
    const begunMs = request.claim?.begunMs ?? clock.monotonicMs();
    const reservation = bytes.open(teamId);
    let releaseSlot = () => {};
    try {
      if (!reservation.reserve(Buffer.byteLength(request.text))) throw overloaded();
      releaseSlot = parts.slots.acquire(app, teamId);
      const record = recordOf({ runId, teamId, keyId, appId: app.id, owner, createTimeMs: clock.unixMs() });
      await insert(record);
      try {
        await request.checkRight();
        // Others may take this instance for gone by now, and would give the run an end.
        if (clock.monotonicMs() - begunMs > runBounds.claimMsMax) throw unavailable();
      } catch (thrown) {
        void remove(record);
        throw thrown;
      }
      void carryOut(request, call, { reservation, releaseSlot });
      return record;
    } catch (thrown) {
      releaseSlot();
      reservation.release();
      await request.claim?.free();
      throw thrown;
    }
  }

  async function insert(record: BackgroundRecord): Promise<void> {
    const { teamId, createTimeMs } = record;
    const recordsMax = await parts.recordsMaxOf(teamId);
    const createdUntilMs = createTimeMs - bounds.runRecordMinutes * 60_000;
    if (!(await quota.takeRecord(teamId, { recordsMax, createdUntilMs }))) {
      throw unavailable({ problem: noRoom(recordsMax) });
    }
    try {
      await store.insert(record);
    } catch (cause) {
      // It may be written all the same.
      void remove(record);
      throw unavailable({ cause });
    }
  }

  /** Removes a run that no caller knows of. If the process ends before, the run is interrupted. */
  async function remove({ id, teamId }: BackgroundRecord): Promise<void> {
    await untilWritten(teamId, () => store.remove(id));
    quota.giveRecord(teamId);
  }

  /** Runs the app for nobody in particular, and writes what came of it. Never rejects. */
  async function carryOut(
    request: BackgroundRequest,
    call: Call,
    { reservation, releaseSlot }: { reservation: TeamReservation; releaseSlot: () => void },
  ): Promise<void> {
    const { runId, teamId, keyId, app, text } = request;
    const here = { createTimeMs: clock.unixMs(), end: new AbortController() };
    underWay.set(runId, here);
    const run: Run = {
      runId,
      teamId,
      keyId,
      app,
      text,
      reservation,
      isBackground: true,
      requestId: call.http.requestId,
      traceContext: readTraceContext(call.http),
      signal: here.end.signal,
    };
    const outcome = await outcomeOf(() => parts.run(run));
    releaseSlot();
    if (outcome.kind === "not_started") await request.claim?.free();
    await writeEnd(run, endNow(endOf(outcome)));
    reservation.release();
    underWay.delete(runId);
    waits.ended(runId);
    if (underWay.size > 0) return;
    for (const resolve of whenIdle) resolve();
    whenIdle = [];
  }

  async function writeEnd({ runId, teamId }: Run, end: BackgroundEnd): Promise<void> {
    const textsBytes = end.text === null ? 0 : Buffer.byteLength(end.text);
    if (textsBytes > 0) await quota.takeText(teamId, textsBytes).catch(onWriteFailed);
    const record = await untilWritten(teamId, () => store.end(runId, end));
    if (record) parts.onEnded(record.state === "running" ? end.state : record.state);
    if (record?.state !== "succeeded") quota.removed(teamId, { records: 0, textBytes: textsBytes });
  }

  /** Tries again until the store takes it, or this process closes. Never rejects. */
  async function untilWritten<T>(teamId: string, write: () => Promise<T>): Promise<T | undefined> {
    for (let isFirst = true; ; isFirst = false) {
      const isLast = isClosing;
      try {
        return await write();
      } catch (cause) {
        // One line for an outage, not one a second.
        if (isFirst) onWriteFailed(cause);
        quota.forget(teamId);
        if (isLast) return undefined;
      }
      const waited = Promise.withResolvers<void>();
      timers.after(runBounds.recordRetryMs, waited.resolve);
      await Promise.race([waited.promise, closing.promise]);
    }
  }

  /** Ends these runs wherever they are under way. Calls `before` before each write. */
  async function cancelAll(runs: RunsUnderWay, before: () => void = () => {}): Promise<void> {
    let isAny = false;
    for (;;) {
      before();
      const ids = await store.endAll(runs, cancelled(), bounds.deletedAtOnce);
      if (ids.length === 0) break;
      isAny = true;
      for (const id of ids) stop(id);
    }
    if (isAny) parts.announceEnd();
  }

  /** Closes the app's call of a run of this instance that has an end. */
  function stop(id: string): boolean {
    const here = underWay.get(id);
    here?.end.abort(fail("RUN_CANCELLED", { mayHaveRun: true }));
    waits.ended(id);
    return here !== undefined;
  }

  /** Stops the runs of this instance that another one gave an end. */
  async function stopEnded(): Promise<void> {
    const ids = [...underWay.keys()];
    if (ids.length === 0) return;
    const running = new Set(await store.stillRunning(ids));
    for (const id of ids) if (!running.has(id)) stop(id);
  }

  /**
   * Ends the runs of owners that are gone. An owner that the last look did not know either is: each
   * registers before it takes on a run, and what is known now is newer than the last look.
   */
  async function endLeftBehind(): Promise<void> {
    const owners = await store.owners();
    const live = liveOwners?.();
    if (!live) {
      suspects = new Set();
      return;
    }
    const unknown = owners.filter((owner) => !live.has(owner));
    for (const owner of unknown) if (suspects.has(owner)) await interrupt(owner);
    suspects = new Set(unknown);
  }

  async function interrupt(owner: string): Promise<void> {
    while ((await store.endAll({ owner }, interrupted(), bounds.deletedAtOnce)).length > 0);
  }

  const looks = createRepeatedWork(async () => {
    await stopEnded().then(endLeftBehind).catch(onWriteFailed);
  }, runBounds.ownerLookMs);

  async function idle(): Promise<void> {
    if (underWay.size > 0) await new Promise<void>((resolve) => whenIdle.push(resolve));
  }

  return {
    start,
    find: store.find,
    textOf: store.textOf,
    list: store.list,
    wait: waits.wait,
    /**
     * Resolves with the run once its end is durable: CANCELLED, or an earlier one. Undefined if it
     * is gone.
     */
    async cancel({ id }: BackgroundRecord): Promise<BackgroundRecord | undefined> {
      const ended = await store.end(id, cancelled());
      if (ended?.state === "cancelled" && !stop(id)) parts.announceEnd(id);
      return ended;
    },
    cancelAll,
    /** Ends the team's runs, and deletes what is kept of them. Calls `before` before each write. */
    async deleteOfTeam(teamId: string, before: () => void): Promise<void> {
      await cancelAll({ teamId }, before);
      for (let isMore = true; isMore; ) {
        before();
        isMore = (await store.deleteAll(teamId, bounds.deletedAtOnce)) > 0;
      }
      quota.forget(teamId);
    },
    /** Another instance has written the end of this run, or without one of any. Never throws. */
    endedElsewhere(id?: string): void {
      if (id === undefined) stopEnded().catch(onWriteFailed);
      else stop(id);
    },
    /** Of this instance, for metrics. */
    state() {
      const [oldest] = underWay.values();
      const oldestMs = oldest === undefined ? 0 : Math.max(0, clock.unixMs() - oldest.createTimeMs);
      return { running: underWay.size, oldestSeconds: oldestMs / 1_000 };
    },
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
      sweep.start();
      if (liveOwners) looks.start();
      if (liveOwners) waits.pollStore();
    },
    /** Answers all that wait for the end of a run with the run as it is. */
    endWaits: waits.close,
    /** Resolves once no run of this instance is under way. */
    idle,
    /** Writes what is left. Call it when the app's calls are closed. */
    async close(): Promise<void> {
      isClosing = true;
      closing.resolve();
      waits.close();
      await idle();
      await looks.stop();
      await sweep.close();
    },
  };
}

/** A run of this instance. `end` closes its app's call. */
interface UnderWay {
  readonly createTimeMs: number;
  readonly end: AbortController;
}

function recordOf({
  runId,
  ...facts
}: Pick<BackgroundRecord, "teamId" | "appId" | "keyId" | "owner" | "createTimeMs"> & {
  readonly runId: string;
}): BackgroundRecord {
  return {
    id: runId,
    ...facts,
    state: "running",
    textBytes: null,
    error: null,
    endTimeMs: null,
    expireTimeMs: null,
  };
}

type Ended = Pick<BackgroundEnd, "state" | "text" | "error">;

function endOf(outcome: RunOutcome): Ended {
  if (outcome.kind === "kept" && outcome.state === "done") {
    const isKept = Buffer.byteLength(outcome.text) <= runBounds.keptTextBytesMax;
    return { state: "succeeded", text: isKept ? outcome.text : null, error: null };
  }
  const { refusal } = outcome;
  if (refusal.reason === "RUN_CANCELLED") return unsuccessful("cancelled", refusal);
  // It was cut off at the end of a drain.
  const isCut = refusal.reason === "UNAVAILABLE" && refusal.mayHaveRun;
  return unsuccessful("failed", isCut ? fail("RUN_INTERRUPTED") : refusal);
}

function unsuccessful(state: "failed" | "cancelled", { reason, message }: Refusal): Ended {
  const error: RunFault = { code: reason.toLowerCase(), message, status: rowOf(reason).httpStatus };
  return { state, text: null, error };
}

function noRoom(recordsMax: number): string {
  return `The team has started ${recordsMax} runs in the background within an hour, and no more are kept. Start the run later, or wait for its answer.`;
}
