import type { Call } from "../../auth/principal.ts";
import { createRepeatedWork, type Timers } from "../../base/clock.ts";
import { unlessAborted } from "../../http/handler.ts";
import { runBounds } from "../run-bounds.ts";
import type { CheckRight, WatchRights } from "../watch-rights.ts";
import type { RunWithText } from "./run-ends.ts";
import type { RunRecord, RunStore } from "./run-store.ts";

/**
 * Those who wait for the end of a run, at most `runWaitsOfTeamMax` of a team. The end of a run of
 * this instance wakes them at once. The store is asked about the runs of others, once for all that
 * wait.
 */
export function createRunWaits({
  store,
  timers,
  isHere,
  watchRights,
}: {
  readonly store: Pick<RunStore, "find" | "stillRunning">;
  readonly timers: Timers;
  /** Whether the run is under way at this instance, which calls `ended` at its end. */
  readonly isHere: (runId: string) => boolean;
  readonly watchRights: WatchRights;
}) {
  const waiting = new Map<string, Set<(record: RunWithText | undefined) => void>>();
  const ofTeams = new Map<string, number>();
  let isClosed = false;

  /** Wakes those who wait for the run: with its record, or to look for that in the store. */
  function ended(runId: string, record?: RunWithText): void {
    for (const wake of waiting.get(runId) ?? []) wake(record);
  }

  /** A run that is not here may have ended before anybody began to wait for it. */
  async function findNow(id: string): Promise<RunRecord | undefined> {
    return await store.find(id).catch((thrown: unknown) => {
      ended(id);
      throw thrown;
    });
  }

  const polls = createRepeatedWork(async () => {
    const ids = [...waiting.keys()];
    if (ids.length === 0) return;
    // A store that does not answer now is asked again.
    const running = new Set(await store.stillRunning(ids).catch(() => ids));
    for (const id of ids) if (!running.has(id)) ended(id);
  }, runBounds.runPollMs);

  /** Resolves after `msMax` or when woken; rejects with the refusal of the caller or its right. */
  function sleep(
    runId: string,
    { msMax, call, checkRight }: { msMax: number; call: Pick<Call, "signal">; checkRight: CheckRight },
  ): Promise<RunWithText | undefined> {
    const { promise, resolve, reject } = Promise.withResolvers<RunWithText | undefined>();
    const wakes = waiting.get(runId) ?? new Set();
    waiting.set(runId, wakes.add(resolve));
    const over = timers.after(msMax, () => resolve(undefined));
    const rights = watchRights(checkRight, reject);
    return unlessAborted(promise, call.signal).finally(() => {
      over.cancel();
      rights.stop();
      wakes.delete(resolve);
      if (wakes.size === 0 && waiting.get(runId) === wakes) waiting.delete(runId);
    });
  }

  return {
    ended,
    /**
     * Returns the run at its end, or as it is after `msMax`, at the beginning of a drain, and at
     * once if the team has as many waits as it may. Undefined if it is gone. Throws what
     * `checkRight` throws soon after a right is lost, and the refusal of a caller that leaves.
     */
    async wait(
      record: RunRecord,
      {
        msMax,
        call,
        checkRight,
      }: { msMax: number; call: Pick<Call, "signal" | "timeoutMs">; checkRight: CheckRight },
    ): Promise<RunWithText | undefined> {
      const { id, teamId } = record;
      const callMs = (call.timeoutMs() ?? Number.POSITIVE_INFINITY) - runBounds.runWaitSpareMs;
      const ms = Math.min(msMax, callMs);
      const count = ofTeams.get(teamId) ?? 0;
      if (record.state !== "running" || ms <= 0 || isClosed) return record;
      if (count >= runBounds.runWaitsOfTeamMax) return record;
      ofTeams.set(teamId, count + 1);
      try {
        const slept = sleep(id, { msMax: ms, call, checkRight });
        // It may reject before it is awaited.
        slept.catch(() => {});
        const now = isHere(id) ? record : await findNow(id);
        if (now?.state !== "running") ended(id);
        const told = await slept;
        if (now?.state !== "running") return now;
        return told ?? (await store.find(id));
      } finally {
        const left = (ofTeams.get(teamId) ?? 1) - 1;
        if (left > 0) ofTeams.set(teamId, left);
        else ofTeams.delete(teamId);
      }
    },
    /** From now on the store is asked, as other instances may write the ends of runs. */
    pollStore: polls.start,
    close(): void {
      isClosed = true;
      void polls.stop();
      for (const runId of waiting.keys()) ended(runId);
    },
  };
}
