/**
 * The wait of a change for all instances: for each lease of its push, until that has acknowledged
 * the change, is gone, or is over.
 */

import type { Clock, Timers } from "../base/clock.ts";
import type { ControlStore, ControlView, LeaseRecord } from "./control-store.ts";
import { createInterruptibleSleep, type InterruptibleSleep } from "./heartbeat.ts";
import type { FleetTimes } from "./lease.ts";
import type { LeaseObservations } from "./lease-observations.ts";

interface BarrierParts {
  readonly control: Pick<ControlStore, "read">;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly times: Pick<FleetTimes, "beatMs">;
  readonly observations: LeaseObservations;
  readonly isOwn: (id: string) => boolean;
  /** Takes each view that was read for the barriers. */
  readonly onRead: (view: ControlView) => void;
  /** Called with instances that did not acknowledge, once their leases had lapsed. */
  readonly onSilent: ((leases: readonly LeaseRecord[]) => void) | undefined;
}

/** The place of the last change of a push, and the view right after it. */
interface Pushed {
  readonly seq: number;
  readonly view: ControlView;
}

interface Waiting {
  readonly set: WaitSet;
  readonly pause: InterruptibleSleep;
}

/** What makes a change wait until no instance can act on older knowledge. */
export function createBarriers(parts: BarrierParts) {
  const waiting = new Set<Waiting>();
  const readSoon = createReads(parts, () => waiting.size > 0);
  return {
    /**
     * Resolves once every lease of the push's view has acknowledged `seq`, is gone, or has lapsed:
     * at most the time of a lapse after the push, whatever the store does. Never rejects.
     */
    async pass(pushed: Pushed): Promise<void> {
      const barrier = { set: createWaitSet(pushed, parts), pause: createInterruptibleSleep(parts.timers) };
      waiting.add(barrier);
      try {
        readSoon();
        await untilEmpty(parts, barrier);
      } finally {
        waiting.delete(barrier);
      }
    },
    /** A view came in, with whatever step. */
    take(view: ControlView): void {
      for (const { set, pause } of waiting) {
        set.take(view);
        pause.wake();
      }
    },
  };
}

async function untilEmpty({ clock, onSilent }: BarrierParts, { set, pause }: Waiting): Promise<void> {
  const beganMs = clock.monotonicMs();
  // Timers may be early, so only the clock says what is over.
  for (let nowMs = beganMs; ; nowMs = clock.monotonicMs()) {
    const lapsed = set.takeLapsed(nowMs);
    // Those that were over before are long dead, and nobody waited for them.
    if (nowMs > beganMs && lapsed.length > 0) onSilent?.(lapsed);
    const nextMs = set.nextLapseMs();
    if (nextMs === undefined) return;
    await pause.sleep(nextMs - nowMs);
  }
}

/** The first read follows a push after this time, and each later one after a longer pause. */
const firstReadMs = 3;
const lookGrowth = 1.5;

/**
 * Looks for acknowledgements while a barrier waits: quickly at first, because a healthy fleet needs
 * two round trips, and then as often as there is a heartbeat.
 */
function createReads(parts: BarrierParts, isNeeded: () => boolean): () => void {
  const { control, timers, times, onRead } = parts;
  const { sleep } = createInterruptibleSleep(timers);
  let pauseMs = firstReadMs;
  let isReading = false;

  async function readOnce(): Promise<void> {
    onRead(await control.read());
  }

  async function run(): Promise<void> {
    for (isReading = true; isNeeded(); pauseMs = Math.min(pauseMs * lookGrowth, times.beatMs)) {
      await sleep(pauseMs);
      // A read that fails, or can't be applied, costs time only: leases that end need no read.
      if (isNeeded()) await readOnce().catch(() => {});
    }
    isReading = false;
  }

  return () => {
    pauseMs = firstReadMs;
    if (!isReading) void run();
  };
}

type WaitSet = ReturnType<typeof createWaitSet>;

/**
 * The instances that may still act on what was known before one change. Begins with every lease of
 * the push's own view, whether it looks alive or not. `isOwn` are the registrations of this
 * process: it raised its own floors before the push.
 *
 * Only leases from before the push matter, and they are over the time of a lapse after it at the
 * latest. A heartbeat that came after the push was answered with the change, so the lease that it
 * extends knows of it. That is why nobody has to be fenced, however long it does not acknowledge.
 */
export function createWaitSet(
  { seq, view: pushed }: Pushed,
  { observations, isOwn }: Pick<BarrierParts, "observations" | "isOwn">,
) {
  observations.see(pushed);
  const waiting = new Map(
    pushed.leases.flatMap((record) => {
      const lapseMs = observations.lapseTimeMs(record.id);
      return isOwn(record.id) || lapseMs === undefined ? [] : [[record.id, { record, lapseMs }]];
    }),
  );
  return {
    /** Takes out those that acknowledged or are gone. A view from before the change is ignored. */
    take(view: ControlView): void {
      if (view.seq < seq) return;
      const records = new Map(view.leases.map((record) => [record.id, record]));
      for (const id of waiting.keys()) {
        const record = records.get(id);
        if (!record || record.ack >= seq) waiting.delete(id);
      }
    },
    /** Takes out those whose leases are over by `nowMs`, and returns their records of the push. */
    takeLapsed(nowMs: number): readonly LeaseRecord[] {
      const lapsed = [...waiting.values()].filter(({ lapseMs }) => lapseMs <= nowMs);
      for (const { record } of lapsed) waiting.delete(record.id);
      return lapsed.map(({ record }) => record);
    },
    /** When the next lease is over; undefined where none is left. */
    nextLapseMs(): number | undefined {
      if (waiting.size === 0) return undefined;
      return Math.min(...[...waiting.values()].map(({ lapseMs }) => lapseMs));
    },
  };
}
