import type { Clock } from "../clock.ts";
import type { ControlStore, ControlView } from "./control-store.ts";
import type { FleetEvents } from "./fleet.ts";
import type { FleetTimes } from "./fleet-times.ts";
import type { Sightings } from "./sightings.ts";
import type { Timers } from "./timers.ts";
import { createWaitSet, type WaitSet } from "./wait-set.ts";
import { createWake, type Wake } from "./wake.ts";

/** What makes a change wait until no instance can act on older knowledge. */
export interface Barriers {
  /**
   * Resolves once every lease of the push's view has acknowledged `seq`, is gone, or has lapsed.
   * After the grace it fences the rest, so that they begin anew, and waits until their leases are
   * over. Rejects where the store does not take a fence.
   */
  pass(pushed: { readonly seq: number; readonly view: ControlView }): Promise<void>;
  /** A view came in, with whatever step. */
  take(view: ControlView): void;
}

export interface BarrierParts {
  readonly control: Pick<ControlStore, "read" | "fence">;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly times: Pick<FleetTimes, "graceMs" | "beatMs">;
  readonly sightings: Sightings;
  readonly isOwn: (id: string) => boolean;
  /** Takes each view that was read for the barriers. */
  readonly onRead: (view: ControlView) => void;
  readonly events: FleetEvents;
}

interface Waiting {
  readonly set: WaitSet;
  readonly wake: Wake;
}

export function createBarriers(parts: BarrierParts): Barriers {
  const { clock, timers, times } = parts;
  const waiting = new Set<Waiting>();
  const look = createLooks(parts, () => waiting.size > 0);
  return {
    async pass(pushed) {
      const barrier = { set: createWaitSet(pushed, parts), wake: createWake(timers) };
      const graceOverMs = clock.monotonicMs() + times.graceMs;
      waiting.add(barrier);
      try {
        look();
        await untilEmpty(parts, barrier, graceOverMs);
      } finally {
        waiting.delete(barrier);
      }
    },
    take(view) {
      for (const { set, wake } of waiting) {
        set.take(view);
        wake.now();
      }
    },
  };
}

async function untilEmpty(parts: BarrierParts, { set, wake }: Waiting, graceOverMs: number): Promise<void> {
  const { clock } = parts;
  for (let hasFenced = false; ; ) {
    // Timers may be early, so only the clock says what is over.
    const nowMs = clock.monotonicMs();
    const lapseMs = set.takeLapsed(nowMs) ?? Number.POSITIVE_INFINITY;
    if (set.left().length === 0) return;
    if (!hasFenced && nowMs >= graceOverMs) {
      await fenceAll(parts, set);
      hasFenced = true;
      continue;
    }
    const nextMs = hasFenced ? lapseMs : Math.min(lapseMs, graceOverMs);
    await wake.within(Math.min(nextMs - nowMs, parts.times.graceMs));
  }
}

/** Also those that another process has fenced: one may be gone by now, or have acknowledged. */
async function fenceAll({ control, events }: BarrierParts, set: WaitSet): Promise<void> {
  const silent = set.left();
  events.onSilent?.(silent);
  await Promise.all(silent.map(async ({ id }) => set.fenced(id, await control.fence(id))));
}

/** The first look follows a push after this time, and each later one after a longer pause. */
const firstLookMs = 3;
const lookGrowth = 1.5;

/**
 * Looks for acknowledgements while a barrier waits: quickly at first, because a healthy fleet needs
 * two round trips, and then as often as there is a heartbeat.
 */
function createLooks(parts: BarrierParts, isNeeded: () => boolean): () => void {
  const { control, timers, times, onRead } = parts;
  const { within } = createWake(timers);
  let pauseMs = firstLookMs;
  let looking = false;

  async function lookOnce(): Promise<void> {
    onRead(await control.read());
  }

  async function run(): Promise<void> {
    for (looking = true; isNeeded(); pauseMs = Math.min(pauseMs * lookGrowth, times.beatMs)) {
      await within(pauseMs);
      // A look that fails, or can't be applied, costs time only: leases that end need no look.
      if (isNeeded()) await lookOnce().catch(() => {});
    }
    looking = false;
  }

  return () => {
    pauseMs = firstLookMs;
    if (!looking) void run();
  };
}
