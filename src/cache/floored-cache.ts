import { LRUCache } from "lru-cache";
import type { Clock } from "../base/clock.ts";
import { unavailable } from "../refusal/refusal.ts";
import type { RecordSource } from "./record-source.ts";

/**
 * A cache of versioned records. A floor makes every older version of a record void, also one that
 * is being read at that moment.
 */
export interface FlooredCache<V> extends RecordSource<V> {
  /**
   * However many callers load one id at once, the store is read once. A failed read rejects all of
   * them with its error, and nothing is kept. Rejects with UNAVAILABLE where the store keeps
   * answering with a version below the floor.
   */
  load(id: string): Promise<V | undefined>;
  /**
   * From now on, what is older than `version` is void: no later `peek`, and no `load` called later,
   * returns it. Call it once the change is durable. With `value`, the changed record, the next
   * look-up needs no read. It does no harm to repeat a call, or to call out of order or late by
   * less than `floorRetentionMs`.
   */
  raise(id: string, version: number, value?: V): void;
  /**
   * Forgets every record and every id known to be absent, and makes every read that is under way
   * void. Call it where changes may have been missed. The floors stay.
   */
  clear(): void;
}

/**
 * Holds at most `entriesMax` records for `ttlMs` each, and at most `absentMax` ids that don't exist
 * for `absentTtlMs`; the least recently used goes first. A lifetime counts from the write, and a
 * read never makes it longer. A floor is kept for `floorRetentionMs`, and at most `entriesMax`
 * floors are kept. A read of the store that began before a forgotten floor is void, so that no
 * floor is ever forgotten too early. `onLoad` is called for every read of the store.
 */
export function createFlooredCache<V extends object>(options: {
  clock: Clock;
  entriesMax: number;
  ttlMs: number;
  absentMax: number;
  absentTtlMs: number;
  floorRetentionMs: number;
  versionOf: (value: V) => number;
  load: (id: string) => Promise<V | undefined>;
  onLoad?: (id: string) => void;
}): FlooredCache<V> {
  const { clock, ttlMs, absentTtlMs, versionOf, onLoad } = options;
  // lru-cache treats a start time of 0 as no start, and reads the clock through a timer. So the
  // lifetimes are our own.
  const entries = new LRUCache<string, Entry<V>>({ max: options.entriesMax });
  const absent = new LRUCache<string, { readonly expireMs: number }>({ max: options.absentMax });
  const floors = createFloors(clock, {
    retentionMs: options.floorRetentionMs,
    floorsMax: options.entriesMax,
  });
  const fills = new Map<string, Promise<V | undefined>>();
  // An async function, so that a `load` that throws at once rejects like any other.
  const readStore = async (id: string) => options.load(id);

  function keep(id: string, value: V): void {
    const version = versionOf(value);
    const cached = entries.peek(id);
    if (version < floors.versionOf(id) || (cached && version < cached.version)) return;
    entries.set(id, { value, version, expireMs: clock.monotonicMs() + ttlMs });
  }

  function peek(id: string): V | null | undefined {
    const entry = entries.get(id);
    if (entry) {
      if (clock.monotonicMs() < entry.expireMs) return entry.value;
      entries.delete(id);
    }
    const absentEntry = absent.get(id);
    if (absentEntry) {
      if (clock.monotonicMs() < absentEntry.expireMs) return null;
      absent.delete(id);
    }
    return undefined;
  }

  /**
   * There is no await between the end of a read and the end of this function, so no floor can rise
   * in between.
   */
  async function fill(id: string): Promise<V | undefined> {
    try {
      for (let tries = 0; tries < fillTriesMax; tries++) {
        const begun = floors.mark();
        onLoad?.(id);
        const found = await readStore(id);
        if (floors.isVoid(id, found && versionOf(found), begun)) continue;
        if (found) keep(id, found);
        else absent.set(id, { expireMs: clock.monotonicMs() + absentTtlMs });
        return found;
      }
      throw unavailable();
    } finally {
      // Not in a `finally()` of the promise: that runs later, and a caller that came in between
      // would join this read.
      fills.delete(id);
    }
  }

  return {
    peek,
    load(id) {
      const known = peek(id);
      if (known !== undefined) return Promise.resolve(known ?? undefined);
      const running = fills.get(id);
      if (running) return running;
      const started = fill(id);
      fills.set(id, started);
      return started;
    },
    raise(id, version, value) {
      floors.raise(id, version);
      const cached = entries.peek(id);
      // Also one of the same version: a session keeps its version when it is used.
      if (cached && cached.version <= version) entries.delete(id);
      absent.delete(id);
      if (value !== undefined && floors.areWhole()) keep(id, value);
    },
    clear() {
      entries.clear();
      absent.clear();
      floors.voidReads();
    },
  };
}

/** How often one look-up reads the store at most, where floors rise meanwhile. */
const fillTriesMax = 3;

interface Entry<V> {
  readonly value: V;
  readonly version: number;
  readonly expireMs: number;
}

/** A moment between two raises: how many came before it, and its time. */
interface Mark {
  readonly raises: number;
  readonly timeMs: number;
}

/** The floors that rose lately, oldest first. */
function createFloors(clock: Clock, limits: { retentionMs: number; floorsMax: number }) {
  const floors = new Map<string, { readonly version: number } & Mark>();
  let raises = 0;
  /**
   * Reads that began before this many raises are void: the floor that they would meet was dropped
   * to make room, or was never learned.
   */
  let droppedRaises = 0;
  let droppedTimeMs = Number.NEGATIVE_INFINITY;

  function forget(): void {
    const nowMs = clock.monotonicMs();
    for (const [id, floor] of floors) {
      if (nowMs - floor.timeMs < limits.retentionMs) {
        if (floors.size <= limits.floorsMax) return;
        droppedRaises = floor.raises;
        droppedTimeMs = floor.timeMs;
      }
      floors.delete(id);
    }
  }

  return {
    versionOf: (id: string) => floors.get(id)?.version ?? 0,
    mark: (): Mark => ({ raises, timeMs: clock.monotonicMs() }),
    /**
     * Whether the result of a read (undefined: nothing found) must not be used. "Nothing found" is
     * void only where a floor rose during the read: a read that began after the floor rose saw the
     * deletion.
     */
    isVoid(id: string, version: number | undefined, begun: Mark): boolean {
      if (begun.raises < droppedRaises) return true;
      if (clock.monotonicMs() - begun.timeMs >= limits.retentionMs) return true;
      const floor = floors.get(id);
      if (!floor) return false;
      return version === undefined ? floor.raises > begun.raises : version < floor.version;
    },
    raise(id: string, version: number): void {
      if (version < (floors.get(id)?.version ?? 0)) return;
      floors.delete(id);
      floors.set(id, { version, raises: ++raises, timeMs: clock.monotonicMs() });
      forget();
    },
    /** Makes every read void that has begun, and every record that comes late with a raise. */
    voidReads(): void {
      droppedRaises = ++raises;
      droppedTimeMs = clock.monotonicMs();
    },
    /**
     * Whether a record that comes late is sure to meet its floor: no floor younger than the
     * retention was dropped.
     */
    areWhole: () => clock.monotonicMs() - droppedTimeMs >= limits.retentionMs,
  };
}
