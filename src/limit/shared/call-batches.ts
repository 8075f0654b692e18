import type { Clock } from "../../base/clock.ts";
import type { LimitTimers } from "./limit-timers.ts";
import { createPatience, type Patience } from "./patience.ts";
import { redisBounds } from "./redis-bounds.ts";
import { RedisTrouble } from "./redis-trouble.ts";
import type { SharedLogs } from "./shared-logs.ts";
import { createSpendBatch, type SpendBatch, type Spender } from "./spend-batch.ts";

/** The calls on one connection: one in each turn of the event loop, for all spends of that turn. */
export interface CallBatches {
  add(spender: Spender): void;
  /** Tells every spender without an answer that none comes. Nothing may be added after it. */
  giveUp(): void;
}

export interface CallBatchesParts {
  readonly clock: Clock;
  readonly timers: LimitTimers;
  /** How long a call may take, while this process is not busy with other work. */
  readonly callMsMax: number;
  /** Called when a call fails or takes longer than `callMsMax`: then call `giveUp`. */
  readonly failed: (cause: unknown) => void;
}

export function createCallBatches(logs: SharedLogs, parts: CallBatchesParts): CallBatches {
  const { clock, timers, callMsMax, failed } = parts;
  /** Filled in this turn, and not sent yet. */
  let filling: SpendBatch | undefined;
  const unanswered = new Set<SpendBatch>();
  /** The waits for those that are sent. */
  const waits = new Map<SpendBatch, Patience>();
  /** How long calls have lately taken because this process was busy. */
  let lagMs = 0;

  function send(batch: SpendBatch, triesLeft: number): void {
    if (!unanswered.has(batch)) return;
    if (filling === batch) filling = undefined;
    const fail = (cause: unknown) => {
      if (unanswered.has(batch)) failed(cause);
    };
    const over = () => fail(new RedisTrouble(`silent for ${callMsMax} ms`));
    const sentMs = clock.monotonicMs();
    const wait = createPatience({ clock, timers, msMax: callMsMax }, { startMs: lagMs, over });
    waits.set(batch, wait);
    // The first call that takes too long ends the connection, and so the others with it.
    const giveUpMs = Math.min(...[...waits.values()].map((each) => each.endsMs()));
    const done = () => {
      wait.cancel();
      waits.delete(batch);
    };
    logs.spend(batch.asks(), giveUpMs).then(
      (answers) => {
        done();
        if (answers) {
          lagMs /= 2;
          if (unanswered.delete(batch)) batch.answer(answers);
        } else if (triesLeft > 0) {
          // It was written, or read, so late that nothing was spent: this process is busy.
          lagMs = Math.min(clock.monotonicMs() - sentMs, redisBounds.sharedCallLagMsMax);
          send(batch, triesLeft - 1);
        } else fail(new RedisTrouble("too late"));
      },
      (cause) => {
        done();
        fail(cause);
      },
    );
  }

  return {
    add(spender) {
      if (filling?.hasRoom() !== true) {
        const batch = createSpendBatch(redisBounds.sharedAsksPerCallMax);
        filling = batch;
        unanswered.add(batch);
        timers.soon(() => send(batch, redisBounds.sharedCallRepeatsMax));
      }
      filling?.add(spender);
    },
    giveUp() {
      const batches = [...unanswered];
      unanswered.clear();
      filling = undefined;
      for (const batch of batches) batch.giveUp();
    },
  };
}
