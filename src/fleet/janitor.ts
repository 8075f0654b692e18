/** What nobody else cleans: the records and shares of instances that ended without a word. */

import type { Clock } from "../base/clock.ts";
import type { ControlStore, ControlView } from "./control-store.ts";
import { type FleetTimes, lapseMsOf } from "./lease.ts";
import type { LeaseObservations } from "./lease-observations.ts";
import type { Registration } from "./registration.ts";
import type { Shares } from "./shares.ts";

/**
 * Removes records that nobody acts on any more: those of instances that have long been silent,
 * earlier ones of this process, and shares that nobody took over. Call it with the view of each
 * heartbeat. It never throws; what could not be removed is tried again with a later view.
 *
 * After a pause between its own views it leaves the records of others alone for the time of a
 * lapse: while the store was down, nobody else was seen either, and all would have to begin anew.
 */
export function createJanitor(parts: {
  readonly control: Pick<ControlStore, "remove" | "removeUnchanged" | "dropVacant">;
  readonly observations: LeaseObservations;
  readonly shares: Pick<Shares, "longVacant">;
  readonly registration: Pick<Registration, "isOwn" | "formerAmong">;
  readonly clock: Clock;
  readonly times: FleetTimes;
}): (view: ControlView) => void {
  const { control, observations, shares, registration } = parts;
  const isResting = createRest(parts);
  let working = false;

  async function clean(former: readonly string[], resting: boolean): Promise<void> {
    for (const id of former) await control.remove(id);
    if (resting) return;
    for (const { id, n } of observations.lapsed()) {
      if (!registration.isOwn(id)) await control.removeUnchanged(id, { n });
    }
    for (const slot of shares.longVacant()) await control.dropVacant(slot);
  }

  return ({ leases }) => {
    const resting = isResting();
    if (working) return;
    working = true;
    const former = registration.formerAmong(leases.map(({ id }) => id));
    clean(former, resting)
      .catch(() => {})
      .finally(() => {
        working = false;
      });
  };
}

/**
 * To be asked at each view: whether the last long pause between two views ended less than a lapse
 * ago. A pause is long from half a lease on: after a shorter one the others still have the other
 * half to come back.
 */
function createRest({ clock, times }: { readonly clock: Clock; readonly times: FleetTimes }): () => boolean {
  const lapseMs = lapseMsOf(times);
  let lastMs: number | undefined;
  let untilMs = Number.NEGATIVE_INFINITY;
  return () => {
    const nowMs = clock.monotonicMs();
    if (lastMs !== undefined && nowMs - lastMs > times.leaseMs / 2) untilMs = nowMs + lapseMs;
    lastMs = nowMs;
    return nowMs < untilMs;
  };
}
