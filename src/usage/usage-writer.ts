import { setImmediate } from "node:timers/promises";
import type { HeldUsage } from "./held-usage.ts";
import { usageBounds } from "./usage-bounds.ts";
import type { UsageHour, UsageStore } from "./usage-store.ts";

/** Writes what a process counts, off the path of requests. */
export interface UsageWriter {
  /** Starts to write every `flushMs`. The timer does not keep the process alive. */
  start(): void;
  /**
   * Writes what has changed since the last write. While a write runs, waits for that one instead.
   * Never rejects.
   */
  flush(): Promise<void>;
  /** Stops the timer and writes what is left. Never rejects. */
  close(): Promise<void>;
}

/**
 * Where a write fails, `onFailed` is called, and its counts go into the next one: a count is the
 * whole of its hour, so it does not matter whether the store has it already.
 */
export function createUsageWriter(parts: {
  readonly held: HeldUsage;
  readonly store: Pick<UsageStore, "recordHours">;
  /** Called with the hours of each write that has succeeded. */
  readonly onWritten: (hours: readonly UsageHour[]) => void;
  readonly onFailed: (cause: unknown) => void;
  /** Called with the number of counts that there was no room for. */
  readonly onLost: (counts: number) => void;
  readonly flushMs?: number;
}): UsageWriter {
  const { held, store, onWritten, onFailed, onLost, flushMs = usageBounds.flushMs } = parts;
  let running: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;

  async function write(): Promise<void> {
    const lost = held.takeLost();
    if (lost > 0) onLost(lost);
    const hours = held.take();
    for (let start = 0; start < hours.length; start += usageBounds.countsPerWriteMax) {
      const some = hours.slice(start, start + usageBounds.countsPerWriteMax);
      try {
        await store.recordHours(some);
      } catch (cause) {
        held.giveBack(hours.slice(start));
        onFailed(cause);
        return;
      }
      onWritten(some);
      await setImmediate();
    }
    held.written();
  }

  async function flush(): Promise<void> {
    running ??= write().finally(() => {
      running = undefined;
    });
    await running;
  }

  return {
    start() {
      timer ??= setInterval(flush, flushMs).unref();
    },
    flush,
    async close() {
      clearInterval(timer);
      await running;
      await flush();
    },
  };
}
