/**
 * When keys were used last: kept in memory, and written once a second for all keys, so that no run
 * waits for it.
 */

import { type Clock, createRepeatedWork } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import type { KeyStore } from "./key-store.ts";

/** The last use of each key: known at once in memory, written to the store a little later. */
export interface LastUses {
  /**
   * Notes a use, for the cost of a read of a map. A time before the known one changes nothing.
   */
  record(keyId: string, unixMs: number): void;
  /** The later of the stored time and the time known here; null: never used. */
  lastUseTimeMs(keyId: string, storedMs: number | null): number | null;
  /** Starts to write every `flushMs`. The timer does not keep the process alive. */
  start(): void;
  /**
   * Writes all uses since the last write, in one write. While a write runs, waits for that one
   * instead. Never rejects.
   */
  flush(): Promise<void>;
  /** Stops the timer and writes what is left. Never rejects. */
  close(): Promise<void>;
}

/**
 * Keeps writes off the path of requests. Where a write fails, `onError` is called and its uses go
 * into the next write. At most `keysMax` keys wait to be written. Past that, the use that was noted
 * first is lost, as if the process had been killed.
 */
export function createLastUses(options: {
  store: Pick<KeyStore, "recordUses">;
  flushMs: number;
  onError: (cause: unknown) => void;
  keysMax?: number;
}): LastUses {
  const { store, flushMs, onError, keysMax = bounds.verifiedKeysMax } = options;
  let waiting = new Map<string, number>();
  /**
   * What is being written, or was written last. It is kept for a caller that read the store before
   * a write and merges the times after it.
   */
  let written: ReadonlyMap<string, number> = new Map();

  function record(keyId: string, unixMs: number): void {
    const known = waiting.get(keyId);
    if (known !== undefined && known >= unixMs) return;
    waiting.set(keyId, unixMs);
    if (waiting.size > keysMax) dropFirst(waiting);
  }

  async function write(): Promise<void> {
    written = waiting;
    waiting = new Map();
    if (written.size === 0) return;
    try {
      await store.recordUses(written);
    } catch (cause) {
      const newer = waiting;
      waiting = new Map(written);
      for (const [keyId, unixMs] of newer) record(keyId, unixMs);
      onError(cause);
    }
  }

  const writes = createRepeatedWork(write, flushMs);
  return {
    record,
    lastUseTimeMs(keyId, storedMs) {
      const noneMs = Number.NEGATIVE_INFINITY;
      const here = Math.max(waiting.get(keyId) ?? noneMs, written.get(keyId) ?? noneMs);
      const latest = Math.max(storedMs ?? noneMs, here);
      return latest === noneMs ? null : latest;
    },
    start: writes.start,
    flush: writes.run,
    async close() {
      await writes.stop();
      await writes.run();
    },
  };
}

function dropFirst(map: Map<string, number>): void {
  for (const keyId of map.keys()) {
    map.delete(keyId);
    return;
  }
}

type RecordUses = Pick<KeyStore, "recordUses">;

/** A key counts as active for this time after its last use. */
const activeKeyMs = 5 * 60_000;

/** The keys that were used in this process within a time that has just passed. */
interface ActiveKeys {
  /** Notes the uses that are written through it. So no run pays for it. */
  noting(store: RecordUses): RecordUses;
  count(): number;
}

/** At most `keysMax` keys are known: past that, the one that was noted first is forgotten. */
export function createActiveKeys({
  clock,
  withinMs = activeKeyMs,
  keysMax,
}: {
  readonly clock: Pick<Clock, "unixMs">;
  readonly withinMs?: number;
  readonly keysMax: number;
}): ActiveKeys {
  /** The last use of each key, about in the order of time. */
  const lastUses = new Map<string, number>();

  function note(uses: ReadonlyMap<string, number>): void {
    for (const [keyId, unixMs] of uses) {
      // A write that is repeated brings the same use again.
      if ((lastUses.get(keyId) ?? Number.NEGATIVE_INFINITY) >= unixMs) continue;
      lastUses.delete(keyId);
      lastUses.set(keyId, unixMs);
    }
    forget(keysMax);
  }

  function forget(sizeMax: number): void {
    const fromMs = clock.unixMs() - withinMs;
    for (const [keyId, unixMs] of lastUses) {
      if (unixMs >= fromMs && lastUses.size <= sizeMax) return;
      lastUses.delete(keyId);
    }
  }

  return {
    noting: ({ recordUses }) => ({
      recordUses(uses) {
        note(uses);
        return recordUses(uses);
      },
    }),
    count() {
      forget(keysMax);
      return lastUses.size;
    },
  };
}
