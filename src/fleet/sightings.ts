import type { Clock } from "../base/clock.ts";
import type { ControlView, LeaseRecord } from "./control-store.ts";

/** Since when this process has seen no step that extends a lease, on its own monotonic clock. */
export interface Sightings {
  /** Notes all records of a view. Views may come late and out of order. */
  see(view: ControlView): void;
  /**
   * When the lease of the record is over, if no later step extends it; undefined where it is not
   * there. What extended it was sent before its n was first seen. A fence is no such step: it makes
   * the lease no longer.
   */
  lapseTimeMs(id: string): number | undefined;
  /** The records, as they were last seen, whose n has not grown until their leases were over. */
  lapsed(): readonly Pick<LeaseRecord, "id" | "n" | "state">[];
}

export function createSightings(clock: Clock, lapseMs: number): Sightings {
  const sightings = new Map<string, Sighting>();

  /** Its n only ever grows, and it is never live again once it was fenced. */
  function seeRecord({ id, n, state }: LeaseRecord): void {
    const seen = sightings.get(id);
    if (!seen || n > seen.n) sightings.set(id, { n, state, sinceMs: clock.monotonicMs() });
    else if (n === seen.n && state === "fenced") sightings.set(id, { ...seen, state });
  }

  return {
    see({ leases }) {
      const present = new Set(leases.map(({ id }) => id));
      // A late view may lack a record that is newer than the view. It is then counted from the
      // next view on, which is later and so never too early.
      for (const id of sightings.keys()) if (!present.has(id)) sightings.delete(id);
      for (const record of leases) seeRecord(record);
    },
    lapseTimeMs(id) {
      const seen = sightings.get(id);
      return seen && seen.sinceMs + lapseMs;
    },
    lapsed() {
      const nowMs = clock.monotonicMs();
      return [...sightings]
        .filter(([, { sinceMs }]) => nowMs >= sinceMs + lapseMs)
        .map(([id, { n, state }]) => ({ id, n, state }));
    },
  };
}

interface Sighting extends Pick<LeaseRecord, "n" | "state"> {
  readonly sinceMs: number;
}
