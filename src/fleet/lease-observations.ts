/**
 * Since when the leases of others have stood still, and the wait of a start until those that are in
 * its way have left or are over.
 */

import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../base/clock.ts";
import { StartRefused } from "../refusal/start-refused.ts";
import type { ControlStore, ControlView, LeaseRecord } from "./control-store.ts";

export type LeaseObservations = ReturnType<typeof createLeaseObservations>;

/** Since when this process has seen no step that extends a lease, on its own monotonic clock. */
export function createLeaseObservations(clock: Clock, lapseMs: number) {
  const observations = new Map<string, LeaseObservation>();

  /** Its n only ever grows. */
  function seeRecord({ id, n }: LeaseRecord): void {
    const seen = observations.get(id);
    if (!seen || n > seen.n) observations.set(id, { n, sinceMs: clock.monotonicMs() });
  }

  return {
    /** Notes all records of a view. Views may come late and out of order. */
    see({ leases }: ControlView): void {
      const present = new Set(leases.map(({ id }) => id));
      // A late view may lack a record that is newer than the view. It is then counted from the
      // next view on, which is later and so never too early.
      for (const id of observations.keys()) if (!present.has(id)) observations.delete(id);
      for (const record of leases) seeRecord(record);
    },
    /**
     * When the lease of the record is over, if no later step extends it; undefined where it is not
     * there. What extended it was sent before its n was first seen.
     */
    lapseTimeMs(id: string): number | undefined {
      const seen = observations.get(id);
      return seen && seen.sinceMs + lapseMs;
    },
    /** The records, as they were last seen, whose n has not grown until their leases were over. */
    lapsed(): readonly Pick<LeaseRecord, "id" | "n">[] {
      const nowMs = clock.monotonicMs();
      return [...observations]
        .filter(([, { sinceMs }]) => nowMs >= sinceMs + lapseMs)
        .map(([id, { n }]) => ({ id, n }));
    },
  };
}

interface LeaseObservation extends Pick<LeaseRecord, "n"> {
  readonly sinceMs: number;
}

/** Says what is in the way of a start, which has waited for so many seconds. */
export type Obstacle = (seconds: number) => string;

/**
 * Waits until the leases that are left are no obstacle. A lease whose n was seen not to grow
 * for `lapseMs` is removed, so that its instance can't go on with it if it wakes up. Throws
 * StartRefused after `waitMsMax`, or as soon as `signal` is aborted; with `refusesAtOnce` as soon
 * as an instance in the way has shown, by a heartbeat, that it is alive.
 */
export async function awaitLeasesGone(parts: {
  readonly control: Pick<ControlStore, "read" | "removeUnchanged">;
  readonly obstacle: (leases: readonly LeaseRecord[]) => Obstacle | undefined;
  readonly refusesAtOnce?: boolean;
  readonly clock: Clock;
  /** `beatMs` is the pause between two reads. */
  readonly times: { readonly beatMs: number; readonly lapseMs: number; readonly waitMsMax: number };
  readonly events: { readonly onWaiting: (waitMsMax: number) => void };
  readonly signal?: AbortSignal | undefined;
}): Promise<void> {
  const { control, obstacle, clock, times, signal } = parts;
  const observations = createLeaseObservations(clock, times.lapseMs);
  const firstBeats = new Map<string, number>();
  const isAlive = ({ id, n }: LeaseRecord) => n > (firstBeats.get(id) ?? n);

  /** The leases that are left once those that have lapsed are removed. */
  async function read(): Promise<LeaseRecord[]> {
    const view = await control.read();
    observations.see(view);
    const lapsed = new Map(observations.lapsed().map((record) => [record.id, record]));
    const left: LeaseRecord[] = [];
    for (const lease of view.leases) {
      if (!firstBeats.has(lease.id)) firstBeats.set(lease.id, lease.n);
      const seen = lapsed.get(lease.id);
      if (!seen || !(await control.removeUnchanged(lease.id, seen))) left.push(lease);
    }
    return left;
  }

  const startMs = clock.monotonicMs();
  for (let reads = 0; ; reads++) {
    const left = await read();
    const living = parts.refusesAtOnce ? obstacle(left.filter(isAlive)) : undefined;
    if (living) throw new StartRefused(living(Math.ceil(times.beatMs / 1_000)));
    const inTheWay = obstacle(left);
    if (!inTheWay) return;
    const waitedMs = clock.monotonicMs() - startMs;
    if (waitedMs >= times.waitMsMax) throw new StartRefused(inTheWay(Math.round(waitedMs / 1_000)));
    if (reads === 0) parts.events.onWaiting(times.waitMsMax);
    await sleep(times.beatMs, undefined, { signal }).catch(() => {});
    if (signal?.aborted) throw new StartRefused("Keyrun was stopped while it waited for the store.");
  }
}
