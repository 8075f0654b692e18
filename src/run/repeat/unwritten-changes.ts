import { runBounds } from "../run-bounds.ts";
import type { RunRecordChange } from "./run-record-store.ts";

/** Changes that the store could not take. They are tried again until it does. */
export interface UnwrittenChanges {
  /** Keeps the change in memory, and calls `done` once it is written or given up. */
  add(change: Exclude<RunRecordChange, { kind: "claim" }>, done: () => void): void;
  /** Tries once to write what is left, and stops trying. Never rejects. */
  close(): Promise<void>;
}

interface Unwritten {
  readonly change: Exclude<RunRecordChange, { kind: "claim" }>;
  readonly done: () => void;
}

/**
 * Past the bounds the oldest is given up. Its record then stays in state `running`, as if the
 * process had been killed, which never lets an app start twice.
 */
export function createUnwrittenChanges({
  write,
  retryMs = runBounds.recordRetryMs,
}: {
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

  function tryOnce(): Promise<void> {
    trying ??= tryAll().finally(() => {
      trying = undefined;
    });
    return trying;
  }

  return {
    add(change, done) {
      const one = { change, done };
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
