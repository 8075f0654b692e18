import { setImmediate } from "node:timers/promises";
import { runBounds } from "../run-bounds.ts";
import type { RunChange, RunRecord, RunStore } from "./run-store.ts";

/**
 * Resolves once the change is durable, with the record that stood in its way, or with undefined.
 * Rejects as the store does.
 */
export type WriteRecord = (change: RunChange) => Promise<RunRecord | undefined>;

interface Waiting {
  readonly change: RunChange;
  readonly resolve: (found: RunRecord | undefined) => void;
  readonly reject: (cause: unknown) => void;
}

/**
 * Writes the changes of one turn of the event loop in one durable write. One write runs at a time,
 * and the changes that come meanwhile are the next one. So the changes of one id are made in their
 * order.
 */
export function createRecordWriter({ write }: Pick<RunStore, "write">): WriteRecord {
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
    textBytes += textBytesOf(one.change);
    const isFull =
      batch.length === runBounds.recordChangesAtOnce || textBytes > runBounds.recordTextBytesAtOnce;
    if (isFull && batch.length > 0) break;
    ids.add(id);
    batch.push(one);
  }
  return batch;
}

interface Retry {
  change: LaterChange;
  readonly done: (standing: RunRecord | undefined) => void;
}

type LaterChange = Exclude<RunChange, { kind: "insert" }>;

/**
 * The retry queue: changes that the store could not take, which are tried again until it does. Past
 * `unwrittenTextBytesMax` the oldest loses its text, and is still written.
 */
export function createRetryQueue(write: WriteRecord) {
  const waiting = new Set<Retry>();
  let textBytes = 0;
  let timer: NodeJS.Timeout | undefined;
  let trying: Promise<void> | undefined;
  let isClosed = false;

  /** The store is asked about one change at a time: while it fails, more would only cost time. */
  async function tryAll(): Promise<void> {
    for (const one of waiting) {
      try {
        one.done(await write(one.change));
      } catch {
        return;
      }
      waiting.delete(one);
      textBytes -= textBytesOf(one.change);
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

  function dropOldestTexts(): void {
    for (const one of waiting) {
      if (textBytes <= runBounds.unwrittenTextBytesMax) return;
      textBytes -= textBytesOf(one.change);
      if (one.change.kind === "end") one.change = { ...one.change, end: { ...one.change.end, text: null } };
    }
  }

  return {
    /** How many changes wait. */
    size: () => waiting.size,
    /** Resolves as the write does, once the store takes it; with undefined at `close`. */
    settle(change: LaterChange): Promise<RunRecord | undefined> {
      return new Promise((done) => {
        if (isClosed) return done(undefined);
        waiting.add({ change, done });
        textBytes += textBytesOf(change);
        dropOldestTexts();
        timer ??= setInterval(tryOnce, runBounds.recordRetryMs).unref();
      });
    },
    /** Tries once to write what is left, and stops trying. Never rejects. */
    async close(): Promise<void> {
      isClosed = true;
      await trying;
      await tryOnce();
      clearInterval(timer);
      for (const { done } of waiting) done(undefined);
    },
  };
}

/** The bytes of the text that the change writes. */
export function textBytesOf(change: RunChange): number {
  const text = change.kind === "end" ? change.end.text : null;
  return text === null ? 0 : Buffer.byteLength(text);
}
