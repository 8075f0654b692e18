import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../base/clock.ts";
import { StartRefused } from "../refusal/start-refused.ts";
import type { ControlStore, LeaseRecord } from "./control-store.ts";
import { createSightings } from "./sightings.ts";

/** What a start needs that may have to wait for others to leave. */
export interface AwaitLapseParts {
  readonly clock: Clock;
  readonly times: {
    /** The pause between two looks. */
    readonly renewMs: number;
    readonly lapseMs: number;
    readonly waitMsMax: number;
  };
  readonly events: { readonly onWaiting: (waitMsMax: number) => void };
  /** Ends the wait. */
  readonly signal?: AbortSignal | undefined;
}

/** Says what is in the way of a start, which has waited for so many seconds. */
export type Obstacle = (seconds: number) => string;

/**
 * Waits until the leases that are left are no obstacle. A lease whose n was seen not to grow
 * for `lapseMs` is removed, so that its instance can't go on with it if it wakes up. Throws
 * StartRefused after `waitMsMax`; with `refusesAtOnce` as soon as an instance in the way has shown,
 * by a heartbeat, that it is alive.
 */
export async function awaitLeasesGone(
  parts: AwaitLapseParts & {
    readonly control: ControlStore;
    readonly obstacle: (leases: readonly LeaseRecord[]) => Obstacle | undefined;
    readonly refusesAtOnce?: boolean;
  },
): Promise<void> {
  const { control, obstacle, clock, times } = parts;
  const sightings = createSightings(clock, times.lapseMs);
  const firstBeats = new Map<string, number>();
  const isAlive = ({ id, n }: LeaseRecord) => n > (firstBeats.get(id) ?? n);
  await repeatUntilFree(parts, async () => {
    const view = await control.read();
    sightings.see(view);
    const lapsed = new Map(sightings.lapsed().map((record) => [record.id, record]));
    const left: LeaseRecord[] = [];
    for (const lease of view.leases) {
      if (!firstBeats.has(lease.id)) firstBeats.set(lease.id, lease.n);
      const seen = lapsed.get(lease.id);
      if (!seen || !(await control.removeUnchanged(lease.id, seen))) left.push(lease);
    }
    const living = parts.refusesAtOnce ? obstacle(left.filter(isAlive)) : undefined;
    if (living) throw new StartRefused(living(Math.ceil(times.renewMs / 1_000)));
    return obstacle(left);
  });
}

/** Repeats the attempt until it finds no obstacle. Throws StartRefused after `waitMsMax`. */
export async function repeatUntilFree(
  { clock, times, events, signal }: AwaitLapseParts,
  attempt: () => Promise<Obstacle | undefined>,
): Promise<void> {
  const startMs = clock.monotonicMs();
  for (let tries = 0; ; tries++) {
    const obstacle = await attempt();
    if (!obstacle) return;
    const waitedMs = clock.monotonicMs() - startMs;
    if (waitedMs >= times.waitMsMax) throw new StartRefused(obstacle(Math.round(waitedMs / 1_000)));
    if (tries === 0) events.onWaiting(times.waitMsMax);
    await sleep(times.renewMs, undefined, { signal }).catch(() => {});
    if (signal?.aborted) throw new StartRefused("Keyrun was stopped while it waited for the store.");
  }
}
