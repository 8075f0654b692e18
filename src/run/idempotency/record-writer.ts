import { setImmediate } from "node:timers/promises";
import type { Clock } from "../../base/clock.ts";
import { runBounds } from "../run-bounds.ts";
import type { RunEnd, RunRecord, RunRecordChange, RunRecordStore, RunRelease } from "./run-record-store.ts";

/**
 * Resolves once the change is durable: with the record that stood in the way of a claim, otherwise
 * with undefined. Rejects as the store does.
 */
export type WriteRecord = (change: RunRecordChange) => Promise<RunRecord | undefined>;

interface Waiting {
  readonly change: RunRecordChange;
  readonly resolve: (found: RunRecord | undefined) => void;
  readonly reject: (cause: unknown) => void;
}

/**
 * Writes the changes of one turn of the event loop in one durable write. One write runs at a time,
 * and the changes that come meanwhile are the next one. So the changes of one id are made in their
 * order.
 */
export function createRecordWriter({ write }: Pick<RunRecordStore, "write">): WriteRecord {
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

  return (change) =>
    new Promise((resolve, reject) => {
      waiting.push({ change, resolve, reject });
      if (!isWriting) void writeAll();
    });
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

interface Retry {
  readonly change: RunEnd | RunRelease;
  readonly untilMs: number;
  readonly done: () => void;
}

/**
 * The retry queue: changes that the store could not take, which are tried again until it does. Past
 * the bounds in number and bytes the oldest is given up. The record of a change given up stays in
 * state `running`, as if the process had been killed, which never lets an app start twice.
 */
export function createRetryQueue(clock: Clock, write: WriteRecord) {
  const waiting = new Set<Retry>();
  let textBytes = 0;
  let timer: NodeJS.Timeout | undefined;
  let trying: Promise<void> | undefined;

  function remove(one: Retry): void {
    if (!waiting.delete(one)) return;
    textBytes -= bytesOf(one.change);
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
    /**
     * Keeps the change in memory, and calls `done` once: when it is written, or given up at
     * `untilMs` by the monotonic clock.
     */
    add(retry: Retry): void {
      waiting.add(retry);
      textBytes += bytesOf(retry.change);
      for (const oldest of waiting) {
        if (waiting.size <= runBounds.unwrittenRunsMax && textBytes <= runBounds.unwrittenTextBytesMax) break;
        remove(oldest);
      }
      timer ??= setInterval(tryOnce, runBounds.recordRetryMs).unref();
    },
    /** Tries once to write what is left, and stops trying. Never rejects. */
    async close(): Promise<void> {
      await trying;
      await tryOnce();
      clearInterval(timer);
    },
  };
}

function bytesOf(change: RunEnd | RunRelease): number {
  return change.kind === "end" ? change.textBytes : 0;
}
