import type { Clock } from "../../base/clock.ts";
import { runBounds } from "../run-bounds.ts";
import type { RunEnd, RunRecordChange, RunRelease } from "./run-record-store.ts";

/** Changes that the store could not take. They are tried again until it does. */
export interface UnwrittenChanges {
  /**
   * Keeps the change in memory, and calls `done` once: when it is written, or given up at
   * `untilMs` by the monotonic clock.
   */
  add(change: RunEnd | RunRelease, end: { untilMs: number; done: () => void }): void;
  /** Tries once to write what is left, and stops trying. Never rejects. */
  close(): Promise<void>;
}

interface Unwritten {
  readonly change: RunEnd | RunRelease;
  readonly untilMs: number;
  readonly done: () => void;
}

/**
 * Past the bounds in number and bytes the oldest is given up. The record of a change given up stays
 * in state `running`, as if the process had been killed, which never lets an app start twice.
 */
export function createUnwrittenChanges({
  clock,
  write,
  retryMs = runBounds.recordRetryMs,
}: {
  clock: Clock;
  write: (change: RunRecordChange) => Promise<unknown>;
  retryMs?: number;
}): UnwrittenChanges {
  const waiting = new Set<Unwritten>();
  let textBytes = 0;
  let timer: NodeJS.Timeout | undefined;
  let trying: Promise<void> | undefined;

  function remove(one: Unwritten): void {
    if (!waiting.delete(one)) return;
    textBytes -= bytesOf(one);
    one.done();
  }

  /** The store is asked about one change at a time: while it fails, more would only cost time. */
  async function tryAll(): Promise<void> {
    for (const one of waiting) {
      try {
        await write(one.change);
      } catch {
        return;
      }
      remove(one);
    }
    clearInterval(timer);
    timer = undefined;
  }

  /** A write of one of them may be under way, and is not waited for. */
  function giveUpLate(): void {
    const nowMs = clock.monotonicMs();
    for (const one of waiting) if (one.untilMs <= nowMs) remove(one);
  }

  function tryOnce(): Promise<void> {
    giveUpLate();
    trying ??= tryAll().finally(() => {
      trying = undefined;
    });
    return trying;
  }

  return {
    add(change, end) {
      const one = { change, ...end };
      waiting.add(one);
      textBytes += bytesOf(one);
      for (const oldest of waiting) {
        if (waiting.size <= runBounds.unwrittenRunsMax && textBytes <= runBounds.unwrittenTextBytesMax) break;
        remove(oldest);
      }
      timer ??= setInterval(tryOnce, retryMs).unref();
    },
    async close() {
      await trying;
      await tryOnce();
      clearInterval(timer);
    },
  };
}

function bytesOf({ change }: Unwritten): number {
  return change.kind === "end" ? change.textBytes : 0;
}
