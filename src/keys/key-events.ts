/**
 * The changes of keys, from where they are made to the open streams of `WatchKeys`. In a fleet,
 * each instance publishes those of all instances, in the order of the control document.
 */

import { setImmediate } from "node:timers/promises";
import { bounds } from "../bounds.ts";
import type { ControlChange } from "../fleet/control-store.ts";
import { type Refusal, unavailable } from "../refusal/refusal.ts";
import { deletedKeyVersion, successorVersion } from "./key-life.ts";
import type { KeyRecord, KeyStore } from "./key-store.ts";

/** A durable change of a team's keys, or a use of one. */
export interface KeyEvent {
  readonly kind: "created" | "changed" | "revoked" | "used";
  readonly key: KeyRecord;
}

/** The changes of keys as they become known in this process. */
export interface KeyEvents {
  /**
   * Hands the event to every watcher of the key's team. Never waits for a watcher, and never
   * throws.
   */
  publish(event: KeyEvent): void;
  /**
   * Watches a team's keys from this moment on. Throws the refusal UNAVAILABLE where a bound is
   * reached, and after `close`.
   */
  watch(teamId: string): KeyWatch;
  /** How many watches are open. */
  watchers(): number;
  /** Whether anybody watches the team. */
  isWatched(teamId: string): boolean;
  /** The teams that somebody watches. */
  watchedTeams(): readonly string[];
  /** Ends every watch of the team with this reason. */
  endTeam(teamId: string, reason: Refusal): void;
  /** Ends every watch with this reason. New ones are taken. */
  endAll(reason: Refusal): void;
  /** Ends every watch, for the drain: an open stream would delay the drain. */
  close(): void;
}

/** One watcher's changes, in order. */
export interface KeyWatch {
  /**
   * The next change, or "quiet" where none came within `quietMs`. Throws the reason that the watch
   * was ended with.
   */
  next(quietMs: number): Promise<KeyEvent | "quiet">;
  /**
   * Ends the watch: changes that wait are dropped, and `next` throws `reason`. The first reason
   * counts.
   */
  end(reason: Refusal): void;
}

/**
 * At most `watchersMax` watches, at most `perTeamMax` of one team, and at most `queueMax` changes
 * that wait for one watcher. A watcher that takes them too slowly first misses uses, and then is
 * ended with UNAVAILABLE; its client opens the stream again and lists the keys.
 */
export function createKeyEvents(
  limits: { watchersMax: number; perTeamMax: number; queueMax: number } = {
    watchersMax: bounds.keyWatchersMax,
    perTeamMax: bounds.keyWatchersPerTeamMax,
    queueMax: bounds.keyWatchQueueMax,
  },
): KeyEvents {
  const watchesByTeam = new Map<string, Set<Watch>>();
  let watchers = 0;
  let closed = false;

  function remove(teamId: string, watch: Watch): void {
    const watches = watchesByTeam.get(teamId);
    if (!watches?.delete(watch)) return;
    watchers -= 1;
    if (watches.size === 0) watchesByTeam.delete(teamId);
  }

  function endAll(reason: Refusal): void {
    for (const watches of [...watchesByTeam.values()]) {
      for (const watch of [...watches]) watch.end(reason);
    }
  }

  return {
    publish(event) {
      for (const watch of watchesByTeam.get(event.key.teamId) ?? []) {
        if (!watch.push(event)) watch.end(unavailable({ problem: tooSlowWords }));
      }
    },
    watch(teamId) {
      if (closed) throw unavailable({ problem: closingWords });
      const watches = watchesByTeam.get(teamId) ?? new Set();
      if (watchers >= limits.watchersMax || watches.size >= limits.perTeamMax)
        throw unavailable({ problem: tooManyWords });
      const watch: Watch = createWatch(limits.queueMax, () => remove(teamId, watch));
      watchesByTeam.set(teamId, watches.add(watch));
      watchers += 1;
      return watch;
    },
    watchers: () => watchers,
    isWatched: (teamId) => watchesByTeam.has(teamId),
    watchedTeams: () => [...watchesByTeam.keys()],
    endTeam(teamId, reason) {
      for (const watch of [...(watchesByTeam.get(teamId) ?? [])]) watch.end(reason);
    },
    endAll,
    close() {
      closed = true;
      endAll(unavailable({ problem: closingWords }));
    },
  };
}

const tooSlowWords = "This stream fell too far behind the changes. Open it again, and list the keys.";
const tooManyWords = "Too many streams of key changes are open. Try again later.";
const closingWords = "Keyrun is shutting down. Open the stream again in a moment, and list the keys.";

interface Watch extends KeyWatch {
  /** False where the queue is full. */
  push(event: KeyEvent): boolean;
}

function createWatch(queueMax: number, onEnd: () => void): Watch {
  const queue: KeyEvent[] = [];
  let ended: Refusal | undefined;
  let wake = () => {};

  return {
    push(event) {
      // A list tells the uses too, so they must not use up the room of changes.
      if (event.kind === "used" && queue.length * 2 >= queueMax) return true;
      if (queue.length >= queueMax) return false;
      queue.push(event);
      wake();
      return true;
    },
    async next(quietMs) {
      if (queue.length === 0 && !ended) {
        await wokenWithin(quietMs, (resolve) => (wake = resolve));
        // One change wakes many. The answer to the one who made it comes first.
        await setImmediate();
      }
      if (ended) throw ended;
      return queue.shift() ?? "quiet";
    },
    end(reason) {
      if (ended) return;
      ended = reason;
      queue.length = 0;
      onEnd();
      wake();
    },
  };
}

function wokenWithin(ms: number, onWake: (resolve: () => void) => void): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    onWake(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/**
 * Publishes the changes of keys in a fleet. It is called with those of all instances, this one's
 * too, in the one order that they have.
 */
interface FleetKeyEvents {
  /**
   * Publishes the changes of keys whose teams are watched here, each once, in this order. Returns
   * at once, and never throws.
   */
  apply(changes: readonly ControlChange[]): void;
  /** Changes may have been missed: ends every watch, so that its client lists the keys again. */
  missed(): void;
}

/**
 * A change names its key alone, so the keys are read from the store, at most `readsMax` at once. If
 * more than `waitingMax` changes wait, or a read fails, changes would be lost. The watches that
 * need them are then ended.
 */
export function createFleetKeyEvents(parts: {
  readonly events: Pick<KeyEvents, "publish" | "isWatched" | "endTeam" | "endAll">;
  readonly find: KeyStore["find"];
  /** The stored last use or the one that is still in memory, whichever is later. */
  readonly lastUseTimeMs: (keyId: string, stored: number | null) => number | null;
  readonly waitingMax?: number;
  readonly readsMax?: number;
}): FleetKeyEvents {
  const { events, find, lastUseTimeMs } = parts;
  const { waitingMax = bounds.keyChangesWaitingMax, readsMax = bounds.keyChangesReadAtOnce } = parts;
  let waiting: WatchedChange[] = [];
  let isReading = false;

  function missed(): void {
    waiting = [];
    events.endAll(unavailable({ problem: missedWords }));
  }

  async function readAll(): Promise<void> {
    isReading = true;
    while (waiting.length > 0) {
      const batch = waiting.slice(0, readsMax);
      waiting = waiting.slice(readsMax);
      const ids = new Set(batch.map(({ id }) => id));
      const reads = new Map([...ids].map((id) => [id, readKey(id)]));
      for (const change of batch) publish(change, await reads.get(change.id));
    }
    isReading = false;
  }

  /** The key; undefined where it is gone, and "unknown" where the store can't say. */
  async function readKey(keyId: string): Promise<KeyRecord | "unknown" | undefined> {
    try {
      return await find(keyId);
    } catch {
      return "unknown";
    }
  }

  function publish({ teamId, version }: WatchedChange, found: KeyRecord | "unknown" | undefined): void {
    // A key that is gone went with its team, or nobody has ever got it.
    if (found === undefined) return;
    if (found === "unknown") {
      events.endTeam(teamId, unavailable({ problem: missedWords }));
      return;
    }
    const key = { ...found, lastUseTimeMs: lastUseTimeMs(found.id, found.lastUseTimeMs) };
    if (isCreation(key, version) && !isRevocation(key, version))
      events.publish({ kind: "created", key: asCreated({ ...key, version }) });
    else events.publish({ kind: key.revokeTimeMs === null ? "changed" : "revoked", key });
  }

  return {
    apply(changes) {
      for (const { kind, id, version, teamId } of changes) {
        if (kind !== "key" || teamId === undefined || version >= deletedKeyVersion) continue;
        if (events.isWatched(teamId)) waiting.push({ id, version, teamId });
      }
      if (waiting.length > waitingMax) return missed();
      if (waiting.length > 0 && !isReading) void readAll();
    },
    missed,
  };
}

/** The version of a new key. */
const createdKeyVersion = 1;

/** What came since the creation is published as a change of its own. */
function asCreated(key: KeyRecord): KeyRecord {
  const since = { revokeTimeMs: null, revokedBy: null, expiredTimeMs: null, replacedByKeyId: null };
  return { ...key, ...since };
}

/** A key that replaces another is told once it can be used. */
function isCreation({ replacesKeyId }: KeyRecord, version: number): boolean {
  return version === (replacesKeyId === null ? createdKeyVersion : successorVersion);
}

/** A successor that was revoked while it was pending has the version of one that can be used. */
function isRevocation(key: KeyRecord, version: number): boolean {
  return key.version === version && key.revokeTimeMs !== null;
}

interface WatchedChange {
  readonly id: string;
  readonly version: number;
  readonly teamId: string;
}

const missedWords = "Changes of keys may have been missed. Open this stream again, and list the keys.";
