/** The way of finished lines to standard error, whose reader may be slow or stopped. */

import { writeSync } from "node:fs";
import type { Clock } from "../base/clock.ts";

/** The bounds of the log's way to its reader. */
export const logOutputBounds = {
  /** Lines that wait for a slow reader. More are dropped, and counted. */
  waitingBytesMax: 1024 * 1024,
  /** Lines of the access log are dropped first: from here on, the room is for the other lines. */
  accessBytesMax: 512 * 1024,
  /** A pipe takes so many bytes whole or not at all: no line of another process comes between. */
  chunkBytesMax: 4_096,
  /** How long to wait until the reader is tried again; doubled while it takes nothing. */
  retryMsMin: 10,
  retryMsMax: 250,
  /** How long the end of the process waits for the reader. */
  endMsMax: 1_000,
} as const;

export interface LogOutput {
  /** Writes a line, before it returns if the reader has room. Never waits for the reader. */
  write(line: string): void;
  /** The same for a line of the access log. Those of one turn of the event loop go together. */
  writeAccess(line: string): void;
  /** Writes all that waits, for the end of the process: blocks it, within a bound of time. */
  flush(): void;
}

/**
 * The one way of all lines to a reader who may be slow, or stopped: in order, and without a wait of
 * the event loop. What has no room waits here up to a bound. Past it lines are dropped, and a line
 * says how many as soon as there is room again.
 */
export function createLogOutput({
  clock,
  take = takeToStandardError,
  bounds = logOutputBounds,
}: {
  readonly clock: Clock;
  /** Takes as many of the bytes as there is room for, at once, and returns their number. */
  readonly take?: (bytes: Uint8Array) => number;
  readonly bounds?: Readonly<Record<keyof typeof logOutputBounds, number>>;
}): LogOutput {
  let waiting: { readonly line: string; readonly bytes: number }[] = [];
  /** The rest of a chunk that has begun. */
  let chunk: Uint8Array = new Uint8Array();
  let waitingBytes = 0;
  let dropped = 0;
  let droppedRequests = 0;
  let retryMs: number = bounds.retryMsMin;
  let retry: NodeJS.Timeout | undefined;
  let isTurnPending = false;

  /** False if the line was dropped. */
  function add(line: string, bytesMax: number): boolean {
    const bytes = Buffer.byteLength(line);
    if (waitingBytes + bytes > bytesMax) return false;
    waiting.push({ line, bytes });
    waitingBytes += bytes;
    return true;
  }

  function nextChunk(): Uint8Array {
    let bytes = 0;
    let count = 0;
    for (const each of waiting) {
      if (count > 0 && bytes + each.bytes > bounds.chunkBytesMax) break;
      bytes += each.bytes;
      count += 1;
    }
    const lines = waiting.slice(0, count).map(({ line }) => line);
    waiting = waiting.slice(count);
    return Buffer.from(lines.join(""));
  }

  /** Writes until nothing waits or the reader has no room. True if something was written. */
  function writeSome(): boolean {
    let isSomeWritten = false;
    for (;;) {
      if (chunk.length === 0) {
        if (dropped > 0 && waitingBytes <= bounds.accessBytesMax / 2) tellDropped();
        if (waiting.length === 0) return isSomeWritten;
        chunk = nextChunk();
      }
      const taken = take(chunk);
      if (taken === 0) return isSomeWritten;
      isSomeWritten = true;
      chunk = chunk.subarray(taken);
      waitingBytes -= taken;
    }
  }

  function tellDropped(): void {
    const time = new Date(clock.unixMs()).toISOString();
    const facts = { level: "warn", time, dropped, ...(droppedRequests > 0 && { droppedRequests }) };
    add(`${JSON.stringify({ ...facts, msg: droppedWords })}\n`, Number.POSITIVE_INFINITY);
    dropped = 0;
    droppedRequests = 0;
  }

  /** While the reader has no room, only the timer tries it: a try for each line would cost more. */
  function writeOrRetry(): void {
    if (retry !== undefined) return;
    const isSomeWritten = writeSome();
    if (waitingBytes === 0) {
      retryMs = bounds.retryMsMin;
      return;
    }
    retryMs = isSomeWritten ? bounds.retryMsMin : Math.min(retryMs * 2, bounds.retryMsMax);
    // The process must not live on for its log: at its end it flushes.
    retry = setTimeout(() => {
      retry = undefined;
      writeOrRetry();
    }, retryMs).unref();
  }

  return {
    write(line) {
      if (!add(line, bounds.waitingBytesMax)) dropped += 1;
      writeOrRetry();
    },
    writeAccess(line) {
      if (!add(line, bounds.accessBytesMax)) {
        dropped += 1;
        droppedRequests += 1;
      }
      if (isTurnPending || retry !== undefined) return;
      isTurnPending = true;
      setImmediate(() => {
        isTurnPending = false;
        writeOrRetry();
      });
    },
    flush() {
      const lateMs = clock.monotonicMs() + bounds.endMsMax;
      for (writeSome(); waitingBytes > 0 && clock.monotonicMs() < lateMs; writeSome())
        Atomics.wait(neverWoken, 0, 0, bounds.retryMsMin);
    },
  };
}

const droppedWords = "lines of the log were dropped: their reader is too slow";

const neverWoken = new Int32Array(new SharedArrayBuffer(4));

const standardError = 2;

/**
 * Needs a pipe that does not block, as Node makes it. Every error counts as no room: a pipe can get
 * another reader, and a disk can get room. The log must never be why Keyrun stops.
 */
function takeToStandardError(bytes: Uint8Array): number {
  try {
    return writeSync(standardError, bytes);
  } catch {
    return 0;
  }
}
