import { setImmediate } from "node:timers/promises";
import type { Clock } from "../../base/clock.ts";
import { runBounds } from "../run-bounds.ts";
import type { RunEnd, RunRecord, RunRecordChange, RunRecordStore, RunRelease } from "./run-record-store.ts";

/** Writes changes of records, those of one turn in one durable write. */
export interface RecordWriter {
  /**
   * Resolves once the change is durable: with the record that stood in the way of a claim,
   * otherwise with undefined. Rejects as the store does.
   */
  write(change: RunRecordChange): Promise<RunRecord | undefined>;
}

interface Waiting {
  readonly change: RunRecordChange;
  readonly resolve: (found: RunRecord | undefined) => void;
  readonly reject: (cause: unknown) => void;
}

/**
 * One write runs at a time, and the changes that come meanwhile are the next one. So the changes of
 * one id are made in their order.
 */
export function createRecordWriter({ write }: Pick<RunRecordStore, "write">): RecordWriter {
  let waiting: Waiting[] = [];
  let isWriting = false;

  async function writeAll(): Promise<void> {
    isWriting = true;
    // What else arrives in this turn shares the write.
    await setImmediate();
    while (waiting.length > 0) {
      const batch = takeBatch(waiting);
      const taken = new Set(batch);
      waiting = waiting.filter((one) => !taken.has(one));
      try {
        const found = await write(batch.map(({ change }) => change));
        for (const [place, { resolve }] of batch.entries()) resolve(found[place]);
      } catch (cause) {
        for (const { reject } of batch) reject(cause);
      }
      // Those who got an answer go on first, and more changes gather for the next write.
      await setImmediate();
    }
    isWriting = false;
  }

  return {
    write: (change) =>
      new Promise((resolve, reject) => {
        waiting.push({ change, resolve, reject });
        if (!isWriting) void writeAll();
      }),
  };
}

/**
 * The next changes, as many as one write takes. A second change of an id waits for the next write.
 */
function takeBatch(waiting: readonly Waiting[]): Waiting[] {
  const batch: Waiting[] = [];
  const ids = new Set<string>();
  let textBytes = 0;
  for (const one of waiting) {
    const { id } = one.change;
    if (ids.has(id)) continue;
    textBytes += one.change.kind === "end" ? one.change.textBytes : 0;
    const isFull =
      batch.length === runBounds.recordChangesAtOnce || textBytes > runBounds.recordTextBytesAtOnce;
    if (isFull && batch.length > 0) break;
    ids.add(id);
    batch.push(one);
  }
  return batch;
}

/** Changes that the store could not take. They are tried again until it does. */
interface RetryQueue {
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
export function createRetryQueue({
  clock,
  write,
  retryMs = runBounds.recordRetryMs,
}: {
  clock: Clock;
  write: (change: RunRecordChange) => Promise<unknown>;
  retryMs?: number;
}): RetryQueue {
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
