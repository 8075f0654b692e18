import { hourMs, type UsageBatch, type UsageRecord, usageBounds } from "./usage-store.ts";

/**
 * What this process has counted, until it is written. Counting costs a read of a map, and
 * allocates nothing for a key that was counted since the last write.
 */
export function createPendingUsage({
  incarnation,
  countsMax = usageBounds.pendingCountsMax,
  deletedKeysMax = usageBounds.deletedKeysMax,
}: {
  /** Of this process, and of no other one. */
  readonly incarnation: string;
  readonly countsMax?: number;
  readonly deletedKeysMax?: number;
}) {
  const counts = new Counts(countsMax);
  const deletedKeys = new Set<string>();
  /** What is being written, or could not be: each is added once, under its number. */
  let batches: UsageBatch[] = [];
  let number = 0;

  function forget(isGone: (of: { readonly teamId: string; readonly keyId: string }) => boolean): void {
    counts.forget(isGone);
    batches = batches.map((batch) => ({ ...batch, hours: batch.hours.filter((hour) => !isGone(hour)) }));
  }

  return {
    /** A request with the key was admitted. */
    accepted(teamId: string, keyId: string, unixMs: number): void {
      const found = counts.of(teamId, keyId, unixMs);
      if (found) found.accepted += 1;
    },
    /** A limit refused a request with the key. */
    limited(teamId: string, keyId: string, unixMs: number): void {
      const found = counts.of(teamId, keyId, unixMs);
      if (found) found.limited += 1;
    },
    /** A run of the key has ended, after `appMs`. */
    ran(
      { teamId, keyId }: { readonly teamId: string; readonly keyId: string },
      hasFailed: boolean,
      appMs: number,
      unixMs: number,
    ): void {
      if (deletedKeys.has(keyId)) return;
      const found = counts.of(teamId, keyId, unixMs);
      if (!found) return;
      if (hasFailed) found.failed += 1;
      found.appMs += appMs;
    },
    /** The next `batch` has what was counted up to now. Not to be called while there is one. */
    seal(): void {
      const hours = counts.take();
      for (let start = 0; start < hours.length; start += usageBounds.countsPerWriteMax) {
        const some = hours.slice(start, start + usageBounds.countsPerWriteMax);
        batches.push({ incarnation, number: ++number, hours: some });
      }
    },
    /** What is to be written, with the same number until `written` is called. */
    batch: (): UsageBatch | undefined => batches[0],
    written: (): void => void batches.shift(),
    /** Lets go of what a team has. */
    forget: (teamId: string): void => forget((of) => of.teamId === teamId),
    /**
     * Lets go of what a deleted key has. A run of it that ends later is not counted: it may end
     * when a new team has the id of the key's team.
     */
    forgetKey(keyId: string): void {
      deletedKeys.add(keyId);
      for (const first of deletedKeys) {
        if (deletedKeys.size <= deletedKeysMax) break;
        deletedKeys.delete(first);
      }
      forget((of) => of.keyId === keyId);
    },
    /** How many counts were lost for want of room since the last call. */
    takeLost(): number {
      const { lost } = counts;
      counts.lost = 0;
      return lost;
    },
  };
}

export type PendingUsage = ReturnType<typeof createPendingUsage>;

/** The part of it that requests call. */
export type CountUsage = Pick<PendingUsage, "accepted" | "limited" | "ran">;

/** The counts by hour and key. */
class Counts {
  readonly #countsMax: number;
  readonly #byHour = new Map<number, Map<string, KeyCounts>>();
  /** The hour that was counted last, for which nothing is looked up. */
  #current = new Map<string, KeyCounts>();
  #currentMs = Number.NaN;
  #size = 0;
  /** What is less than a millisecond goes into the next count. */
  #restMs = 0;
  /** How many counts were lost for want of room. */
  lost = 0;

  constructor(countsMax: number) {
    this.#countsMax = countsMax;
  }

  /** Undefined where there is no room for one more. */
  of(teamId: string, keyId: string, unixMs: number): KeyCounts | undefined {
    const isCurrent = unixMs >= this.#currentMs && unixMs < this.#currentMs + hourMs;
    if (!isCurrent) this.#open(unixMs - (unixMs % hourMs));
    return this.#current.get(keyId) ?? this.#add(teamId, keyId);
  }

  take(): UsageRecord[] {
    const taken: UsageRecord[] = [];
    for (const [startTimeMs, ofHour] of this.#byHour) {
      for (const [keyId, { teamId, accepted, limited, failed, appMs }] of ofHour) {
        const wholeMs = Math.floor(appMs + this.#restMs);
        this.#restMs += appMs - wholeMs;
        // A run that took less than a millisecond may be all that there is.
        if (accepted + limited + failed + wholeMs === 0) continue;
        const numbers = {
          acceptedCount: accepted,
          limitedCount: limited,
          failedCount: failed,
          appMs: wholeMs,
        };
        taken.push({ teamId, keyId, startTimeMs, ...numbers });
      }
    }
    this.#byHour.clear();
    this.#currentMs = Number.NaN;
    this.#size = 0;
    return taken;
  }

  forget(isGone: (of: { readonly teamId: string; readonly keyId: string }) => boolean): void {
    for (const ofHour of this.#byHour.values()) {
      for (const [keyId, { teamId }] of ofHour) {
        if (isGone({ teamId, keyId }) && ofHour.delete(keyId)) this.#size--;
      }
    }
  }

  #open(startTimeMs: number): void {
    this.#current = this.#byHour.get(startTimeMs) ?? new Map();
    this.#byHour.set(startTimeMs, this.#current);
    this.#currentMs = startTimeMs;
  }

  #add(teamId: string, keyId: string): KeyCounts | undefined {
    if (this.#size >= this.#countsMax) {
      this.lost += 1;
      return undefined;
    }
    const made = { teamId, accepted: 0, limited: 0, failed: 0, appMs: 0 };
    this.#current.set(keyId, made);
    this.#size += 1;
    return made;
  }
}

interface KeyCounts {
  readonly teamId: string;
  accepted: number;
  limited: number;
  failed: number;
  appMs: number;
}
