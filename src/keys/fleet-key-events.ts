import { bounds } from "../bounds.ts";
import type { ControlChange } from "../fleet/control-store.ts";
import { unavailable } from "../refusal/refusal.ts";
import { deletedKeyVersion } from "./delete-keys.ts";
import type { KeyEvents } from "./key-events.ts";
import type { KeyRecord, KeyStore } from "./key-store.ts";
import { successorVersion } from "./rotate-key.ts";

/**
 * Publishes the changes of keys in a fleet. It is called with those of all instances, this one's
 * too, in the one order that they have.
 */
export interface FleetKeyEvents {
  /**
   * Publishes the changes of keys whose teams are watched here, each once, in this order. Returns
   * at once, and never throws.
   */
  apply(changes: readonly ControlChange[]): void;
  /** Changes may have been missed: ends every watch, so that its client lists the keys again. */
  missed(): void;
}

/**
 * A change does not hold its key, so the keys are read from the store, at most `readsMax` at once.
 * Past `waitingMax` changes that wait, or where a read fails, changes would be lost: the watches
 * that need them are then ended.
 */
export function createFleetKeyEvents(parts: {
  readonly events: Pick<KeyEvents, "publish" | "isWatched" | "endTeam" | "endAll">;
  readonly find: KeyStore["find"];
  /** The stored last use or the one still held in memory, whichever is later. */
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
