import type { AppRecord } from "../../apps/app-store.ts";
import type { Call } from "../../auth/principal.ts";
import type { Clock } from "../../base/clock.ts";
import { readTraceContext } from "../../http/trace-context.ts";
import type { TeamReservation } from "../../limit/byte-budget.ts";
import type { Run, RunInput, Runner, RunOutput } from "../runner.ts";
import type { CheckRight } from "../watch-rights.ts";
import { cancelled, ended, endOf, outcomeOf, type RunWithText, refusalOfFault } from "./run-ends.ts";
import type { RunRecords } from "./run-records.ts";
import type { RunEnd, RunRecord } from "./run-store.ts";

/** A run to be started. */
export interface KeptRequest extends RunInput {
  readonly runId: string;
  readonly teamId: string;
  readonly keyId: string;
  readonly app: AppRecord;
  /** In the background: it has the app's time and slots for such runs. */
  readonly listed: boolean;
  /** Of its Idempotency-Key, if it has one. */
  readonly claim?: Pick<RunRecord, "keyHash" | "fingerprint"> | undefined;
  /** Throws if the key or its team may not run the app any more. */
  readonly checkRight: CheckRight;
}

/** What a run begins with: its record is durable, and it has its slot. */
interface Begun {
  readonly request: KeptRequest;
  readonly call: Call;
  /** As `add` has returned it. */
  readonly end: AbortController;
  readonly reservation: TeamReservation;
  readonly releaseSlot: () => void;
}

/** The runs of this instance that have a record, until what came of each is written. */
export function createRunsUnderWay(parts: {
  readonly clock: Clock;
  readonly run: Runner;
  readonly keptMs: number;
  /** As in `createKeptRuns`. */
  readonly owner: () => string | undefined;
  readonly records: Pick<RunRecords, "end" | "remove">;
  /** Called once a run is not under way any more, with its record; undefined if that is removed. */
  readonly onLeft: (runId: string, record: RunWithText | undefined) => void;
  /** As in `createKeptRuns`. */
  readonly onEnded: (state: RunEnd["state"]) => void;
}) {
  const { clock, keptMs, records } = parts;
  const underWay = new Map<string, { readonly record: RunRecord; readonly end: AbortController }>();
  const ofKeys = new Map<string, RunRecord>();
  let whenIdle: (() => void)[] = [];

  /**
   * Runs the app, writes what came of it, and tells its caller. Resolves with the record, or with
   * undefined where that is removed. Never rejects.
   */
  async function carryOut(
    record: RunRecord,
    { run, releaseSlot }: { readonly run: Run; readonly releaseSlot: () => void },
    { resolve, reject }: PromiseWithResolvers<RunOutput>,
  ): Promise<RunWithText | undefined> {
    const outcome = await outcomeOf(parts.run(run));
    releaseSlot();
    const tell = () => (outcome.refusal ? reject(outcome.refusal) : resolve(outcome.output));
    if (outcome.refusal?.mayHaveRun === false && !record.listed) {
      await records.remove(record);
      tell();
      return undefined;
    }
    const end = endOf(outcome, { endTimeMs: clock.unixMs(), keptMs });
    const standing = await records.end(record, end, () => {
      // As long as this instance is not taken for gone, nobody else interrupts the run.
      if (parts.owner() === record.owner) tell();
    });
    if (standing?.error) reject(refusalOfFault(standing.error));
    tell();
    const now = standing ?? ended(record, end);
    if (record.listed && now.state !== "running") parts.onEnded(now.state);
    return now;
  }

  function leave({ id, keyHash }: RunRecord, now?: RunWithText): void {
    underWay.delete(id);
    ofKeys.delete(keyHash);
    parts.onLeft(id, now);
    if (underWay.size > 0) return;
    for (const resolve of whenIdle) resolve();
    whenIdle = [];
  }

  return {
    /** A run whose record is there now. Returns what ends it early. */
    add(record: RunRecord): AbortController {
      const end = new AbortController();
      underWay.set(record.id, { record, end });
      ofKeys.set(record.keyHash, record);
      return end;
    },
    /** A run that was not begun after all, and whose record is removed. */
    leave: (record: RunRecord) => leave(record),
    /**
     * Runs the app for nobody in particular. Resolves with its output for the caller that began the
     * run, or rejects with the refusal of the run.
     */
    begin(record: RunRecord, { request, call, end, reservation, releaseSlot }: Begun): Promise<RunOutput> {
      const { runId, teamId, keyId, app, text, input, listed } = request;
      const run: Run = {
        runId,
        teamId,
        keyId,
        app,
        text,
        input,
        reservation,
        isBackground: listed,
        requestId: call.http.requestId,
        traceContext: readTraceContext(call.http),
        signal: end.signal,
      };
      const answer = Promise.withResolvers<RunOutput>();
      // Its caller may be gone.
      answer.promise.catch(() => {});
      void carryOut(record, { run, releaseSlot }, answer).then((now) => {
        reservation.release();
        leave(record, now);
      });
      return answer.promise;
    },
    ids: () => [...underWay.keys()],
    has: (runId: string) => underWay.has(runId),
    /** The record with which the run that has this key was begun; undefined if none is here. */
    findByKey: (keyHash: string) => ofKeys.get(keyHash),
    /** Closes the app's call of a run that has an end. Returns whether it is under way here. */
    stop(runId: string): boolean {
      const here = underWay.get(runId);
      here?.end.abort(cancelled());
      return here !== undefined;
    },
    /** The runs in the background of this instance, for metrics. */
    state() {
      const listed = [...underWay.values()].filter(({ record }) => record.listed);
      const oldestMs = listed[0] ? Math.max(0, clock.unixMs() - listed[0].record.createTimeMs) : 0;
      return { running: listed.length, oldestSeconds: oldestMs / 1_000 };
    },
    /** Resolves once no run is under way, and what came of each is written. */
    async idle(): Promise<void> {
      if (underWay.size > 0) await new Promise<void>((resolve) => whenIdle.push(resolve));
    },
  };
}
