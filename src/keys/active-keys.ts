import type { Clock } from "../base/clock.ts";
import type { KeyStore } from "./key-store.ts";

type RecordUses = Pick<KeyStore, "recordUses">;

/** A key counts as active for this time after its last use. */
const activeKeyMs = 5 * 60_000;

/** The keys that were used in this process within a time that has just passed. */
export interface ActiveKeys {
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
