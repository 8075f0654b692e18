import type { Clock } from "../base/clock.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { refusalFrom } from "../refusal/refusal.ts";
import type { RunSlots } from "../run/run-slots.ts";
import type { PieceIterator, StreamRunner } from "../run/runner.ts";
import type { RunEnded } from "../usage/count-runs.ts";

/**
 * Counts how the streams of each app end, and how many are open: those that have a slot. A stream
 * that is returned early has been left by its caller, or was ended by Keyrun; both are CANCELLED.
 */
export function createStreamMeters({
  slots,
  stream,
  metrics,
  clock,
  countRun,
}: {
  readonly slots: RunSlots;
  readonly stream: StreamRunner;
  readonly metrics: Pick<Metrics, "streamEnded">;
  readonly clock: Clock;
  readonly countRun: RunEnded;
}) {
  let open = 0;
  const meteredSlots: RunSlots = {
    acquire(app, teamId) {
      const release = acquire(app, teamId);
      open += 1;
      return () => {
        open -= 1;
        release();
      };
    },
  };
  const acquire: RunSlots["acquire"] = (app, teamId) => {
    try {
      return slots.acquire(app, teamId);
    } catch (thrown) {
      metrics.streamEnded(app.id, refusalFrom(thrown).reason);
      throw thrown;
    }
  };
  const meteredStream: StreamRunner = async (run) => {
    const startMs = clock.monotonicMs();
    const ended = once((reason: Parameters<Metrics["streamEnded"]>[1]) => {
      metrics.streamEnded(run.app.id, reason);
      countRun(run, reason, clock.monotonicMs() - startMs);
    });
    try {
      const pieces = (await stream(run))[Symbol.asyncIterator]();
      return { [Symbol.asyncIterator]: () => counted(pieces, ended) };
    } catch (thrown) {
      ended(refusalFrom(thrown).reason);
      throw thrown;
    }
  };
  return { slots: meteredSlots, stream: meteredStream, open: () => open };
}

type Ended = (outcome: Parameters<Metrics["streamEnded"]>[1]) => void;

/** Passes on what the iterator does: a return must reach it also while it waits for a piece. */
function counted(pieces: PieceIterator, ended: Ended): PieceIterator {
  return {
    takeShort: () => pieces.takeShort(),
    async next() {
      try {
        const next = await pieces.next();
        if (next.done) ended("OK");
        return next;
      } catch (thrown) {
        ended(refusalFrom(thrown).reason);
        throw thrown;
      }
    },
    async return() {
      ended("CANCELLED");
      return (await pieces.return?.()) ?? { done: true, value: undefined };
    },
  };
}

function once(call: Ended): Ended {
  let isOver = false;
  return (outcome) => {
    if (!isOver) call(outcome);
    isOver = true;
  };
}
