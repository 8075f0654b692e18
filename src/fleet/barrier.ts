import type { Clock, Timers } from "../base/clock.ts";
import type { ControlStore, ControlView } from "./control-store.ts";
import type { FleetEvents } from "./fleet.ts";
import type { FleetTimes } from "./fleet-times.ts";
import type { Sightings } from "./sightings.ts";
import { createWaitSet, type WaitSet } from "./wait-set.ts";
import { createWake, type Wake } from "./wake.ts";

/** What makes a change wait until no instance can act on older knowledge. */
export interface Barriers {
  /**
   * Resolves once every lease of the push's view has acknowledged `seq`, is gone, or has lapsed: at
   * most the time of a lapse after the push, whatever the store does. Never rejects.
   */
  pass(pushed: { readonly seq: number; readonly view: ControlView }): Promise<void>;
  /** A view came in, with whatever step. */
  take(view: ControlView): void;
}

export interface BarrierParts {
  readonly control: Pick<ControlStore, "read">;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly times: Pick<FleetTimes, "beatMs">;
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
  const waiting = new Set<Waiting>();
  const look = createLooks(parts, () => waiting.size > 0);
  return {
    async pass(pushed) {
      const barrier = { set: createWaitSet(pushed, parts), wake: createWake(parts.timers) };
      waiting.add(barrier);
      try {
        look();
        await untilEmpty(parts, barrier);
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

async function untilEmpty({ clock, events }: BarrierParts, { set, wake }: Waiting): Promise<void> {
  const beganMs = clock.monotonicMs();
  // Timers may be early, so only the clock says what is over.
  for (let nowMs = beganMs; ; nowMs = clock.monotonicMs()) {
    const lapsed = set.takeLapsed(nowMs);
    // Those that were over before are long dead, and nobody waited for them.
    if (nowMs > beganMs && lapsed.length > 0) events.onSilent?.(lapsed);
    const nextMs = set.nextLapseMs();
    if (nextMs === undefined) return;
    await wake.within(nextMs - nowMs);
  }
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
