import { AsyncResource } from "node:async_hooks";
import { Refusal, unavailable } from "../refusal/refusal.ts";

/**
 * Checks something that a running stream depends on: rejects with the refusal of a right that is
 * gone. Another error says nothing about the right.
 */
export type CheckRight = () => Promise<void>;

/** Checks the rights again and again until it is stopped. Calls `end` when a right is gone. */
export type WatchRights = (check: CheckRight, end: (refusal: Refusal) => void) => RightsWatch;

export interface RightsWatch {
  /**
   * Checks now, too: a loss that is known in memory ends the stream within this tick of the event
   * loop. At most one check is under way.
   */
  check(): void;
  stop(): void;
}

/**
 * One timer for all streams, because a timer for each would cost more than the checks. A right that
 * can't be checked, as the store is out of reach, is not taken for gone: the stream goes on while
 * this process `mayAdmit` requests. Once it may not, it would not learn of a right that is taken
 * away, so all streams end with UNAVAILABLE.
 */
export function createWatchRights({
  recheckMs,
  mayAdmit,
}: {
  recheckMs: number;
  mayAdmit: () => boolean;
}): WatchRights {
  const watched = new Set<Watched>();
  let ticking: NodeJS.Timeout | undefined;
  // A timer runs in the context of its start: all checks would be in the trace of the first stream.
  const tick = AsyncResource.bind(() => {
    const isBlind = !mayAdmit();
    for (const one of watched) {
      if (isBlind) one.end(unavailable({ mayHaveRun: true }));
      else void checkOnce(one);
    }
  });

  return (check, end) => {
    const one: Watched = { check, end, isChecking: false };
    watched.add(one);
    ticking ??= setInterval(tick, recheckMs).unref();
    return {
      check: () => void checkOnce(one),
      stop() {
        watched.delete(one);
        if (watched.size > 0) return;
        clearInterval(ticking);
        ticking = undefined;
      },
    };
  };
}

interface Watched {
  readonly check: CheckRight;
  readonly end: (refusal: Refusal) => void;
  /** One check at a time: a slow store must not get more checks the slower it is. */
  isChecking: boolean;
}

async function checkOnce(one: Watched): Promise<void> {
  if (one.isChecking) return;
  one.isChecking = true;
  try {
    await one.check();
  } catch (thrown) {
    if (isLoss(thrown)) one.end(thrown);
  } finally {
    one.isChecking = false;
  }
}

function isLoss(thrown: unknown): thrown is Refusal {
  return thrown instanceof Refusal && thrown.reason !== "UNAVAILABLE";
}
