import { LRUCache } from "lru-cache";
import type { Clock } from "../clock.ts";
import { unavailable } from "../error.ts";

/** A cache of versioned records in which a floor voids all that is older, also what is still on its way. */
export interface FlooredCache<V> {
  /** The record without a read of the store; null: known not to exist; undefined: not known, `load` it. */
  peek(id: string): V | null | undefined;
  /**
   * The record, from the store where it is not known; undefined: it does not exist. However many load one id at
   * once, the store is read once. A failed read rejects them all with its error, and nothing is kept. Where the
   * store keeps answering with what is below the floor, UNAVAILABLE.
   */
  load(id: string): Promise<V | undefined>;
  /**
   * From now on what is older than `version` is void: no later `peek`, and no `load` called later, ever gives it.
   * Call it once the change is durable. With `value`, the record as changed, the next look-up needs no read.
   * Repeating it, or calling it out of order or late by less than `floorRetentionMs`, does no harm.
   */
  raise(id: string, version: number, value?: V): void;
  /** What is held, for metrics. */
  sizes(): { entries: number; absent: number; floors: number };
}

/**
 * At most `entriesMax` records for `ttlMs` each, at most `absentMax` ids that don't exist for `absentTtlMs`, least
 * recently used first to go. Lives count from the write, and a read never makes them longer. A floor is kept for
 * `floorRetentionMs`, and at most `entriesMax` are; a read of the store that began before a floor that is forgotten
 * is void, so that no floor is ever forgotten too early. `onLoad` is called for every read of the store.
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
  // lru-cache's own lifetimes take a start of 0 for none and read the clock through a timer; these are our own.
  const entries = new LRUCache<string, Entry<V>>({ max: options.entriesMax });
  const absent = new LRUCache<string, { readonly expireMs: number }>({ max: options.absentMax });
  const floors = createFloors(clock, {
    retentionMs: options.floorRetentionMs,
    floorsMax: options.entriesMax,
  });
  const fills = new Map<string, Promise<V | undefined>>();
  // An async function, so that a load that throws at once rejects like any other.
  const readStore = async (id: string) => options.load(id);

  function keep(id: string, value: V): void {
    const version = versionOf(value);
    const held = entries.peek(id);
    if (version < floors.versionOf(id) || (held && version < held.version)) return;
    entries.set(id, { value, version, expireMs: clock.monotonicMs() + ttlMs });
  }

  function peek(id: string): V | null | undefined {
    const entry = entries.get(id);
    if (entry) {
      if (clock.monotonicMs() < entry.expireMs) return entry.value;
      entries.delete(id);
    }
    const gone = absent.get(id);
    if (gone) {
      if (clock.monotonicMs() < gone.expireMs) return null;
      absent.delete(id);
    }
    return undefined;
  }

  /** From the end of a read to the end of this function there is no await: no floor can rise in between. */
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
      // Here and not in a `finally()` of the promise: that runs later, and one who came meanwhile would join.
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
      const held = entries.peek(id);
      if (held && held.version < version) entries.delete(id);
      absent.delete(id);
      if (value !== undefined && floors.areWhole()) keep(id, value);
    },
    sizes: () => ({ entries: entries.size, absent: absent.size, floors: floors.size() }),
  };
}

/** How often a look-up reads the store again because a floor rose meanwhile. */
const fillTriesMax = 3;

interface Entry<V> {
  readonly value: V;
  readonly version: number;
  readonly expireMs: number;
}

/** A moment between two raises, and when it was. */
interface Mark {
  readonly raises: number;
  readonly timeMs: number;
}

/** The floors that rose lately, oldest first. */
function createFloors(clock: Clock, limits: { retentionMs: number; floorsMax: number }) {
  const floors = new Map<string, { readonly version: number } & Mark>();
  let raises = 0;
  /** Reads begun before this many raises are void: the floor that could tell was dropped for want of room. */
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
     * Whether what a read found (undefined: nothing) is no evidence. That nothing was found is void only where a
     * floor rose during the read: a read begun later saw a deletion.
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
    /** Whether a record that comes late would meet its floor: none that is younger than the retention was dropped. */
    areWhole: () => clock.monotonicMs() - droppedTimeMs >= limits.retentionMs,
    size(): number {
      forget();
      return floors.size;
    },
  };
}
