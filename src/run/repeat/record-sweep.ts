import { setImmediate } from "node:timers/promises";
import type { Clock } from "../../base/clock.ts";
import { runBounds } from "../run-bounds.ts";
import type { RecordTotals, RunRecordStore } from "./run-record-store.ts";

/** Removes expired records from time to time. The timer does not keep the process alive. */
export interface RecordSweep {
  start(): void;
  /** Waits for the sweep that runs, which then ends early. */
  close(): Promise<void>;
}

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
}): RecordSweep {
  let timer: NodeJS.Timeout | undefined;
  let sweeping: Promise<void> | undefined;
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

  return {
    start() {
      timer ??= setInterval(() => {
        sweeping ??= sweep().finally(() => {
          sweeping = undefined;
        });
      }, sweepMs).unref();
    },
    async close() {
      isClosed = true;
      clearInterval(timer);
      await sweeping;
    },
  };
}
