import { setImmediate } from "node:timers/promises";
import { runBounds } from "../run-bounds.ts";
import type { RunRecord, RunRecordChange, RunRecordStore } from "./run-record-store.ts";

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
