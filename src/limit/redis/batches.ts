import type { Clock } from "../../base/clock.ts";
import { bounds } from "../../bounds.ts";
import type { KeyLimit } from "../limit-decision.ts";
import { RedisTrouble } from "./redis-trouble.ts";
import type { Answer, Ask, LogState, SharedLogs, Spend } from "./shared-logs.ts";
import { type LimitTimers, startLoopAwareTimeout } from "./timers.ts";

export type Batches = ReturnType<typeof createBatches>;

/**
 * The calls on one connection: one in each turn of the event loop, for all spends of that turn.
 * `failed` is called when a call fails, or takes longer than `redisCallMsMax` while this process is
 * not busy with other work: then call `giveUp`.
 */
export function createBatches(
  logs: SharedLogs,
  parts: { readonly clock: Clock; readonly timers: LimitTimers; readonly failed: (cause: unknown) => void },
) {
  const { clock, timers, failed } = parts;
  const msMax = bounds.redisCallMsMax;
  /** Filled in this turn, and not sent yet. */
  let filling: Batch | undefined;
  const unanswered = new Set<Batch>();
  /** Those of the calls that are under way. */
  const timeouts = new Set<ReturnType<typeof startLoopAwareTimeout>>();
  /** How long calls have lately taken because this process was busy. */
  let lagMs = 0;

  async function send(batch: Batch, triesLeft: number): Promise<void> {
    if (!unanswered.has(batch)) return;
    if (filling === batch) filling = undefined;
    const fail = (cause: unknown) => {
      if (unanswered.has(batch)) failed(cause);
    };
    const sentMs = clock.monotonicMs();
    const over = () => fail(new RedisTrouble(`silent for ${msMax} ms`));
    const timeout = startLoopAwareTimeout(parts, { msMax, startMs: lagMs, over });
    timeouts.add(timeout);
    // The first call that takes too long ends the connection, and so the others with it.
    const giveUpMs = Math.min(...Array.from(timeouts, (each) => each.endsMs()));
    let answers: readonly Answer[] | undefined;
    try {
      answers = await logs.spend(batch.asks, giveUpMs);
    } catch (cause) {
      return fail(cause);
    } finally {
      timeout.cancel();
      timeouts.delete(timeout);
    }
    if (answers) {
      lagMs /= 2;
      if (unanswered.delete(batch)) batch.answer(answers);
    } else if (triesLeft > 0) {
      // It was written, or read, so late that nothing was spent: this process is busy.
      lagMs = Math.min(clock.monotonicMs() - sentMs, bounds.sharedCallLagMsMax);
      void send(batch, triesLeft - 1);
    } else fail(new RedisTrouble("too late"));
  }

  return {
    /** Resolves with undefined where it is not known what became of the spend. */
    spend(spend: Spend): Promise<Answer | undefined> {
      if (filling?.hasRoom() !== true) {
        const batch = new Batch();
        filling = batch;
        unanswered.add(batch);
        timers.soon(() => void send(batch, bounds.sharedCallRepeatsMax));
      }
      return filling.add(spend);
    },
    /** Ends every spend without an answer. Nothing may be spent after it. */
    giveUp() {
      const batches = [...unanswered];
      unanswered.clear();
      filling = undefined;
      for (const batch of batches) batch.answer([]);
    },
  };
}

/**
 * The spends of one turn. Alike spends of a team become one ask: the order within a team is kept,
 * and that between teams changes no decision.
 */
export class Batch {
  readonly asks: WaitingAsk[] = [];
  readonly #lastOf = new Map<string, WaitingAsk>();

  hasRoom(): boolean {
    return this.asks.length < bounds.sharedAsksPerCallMax;
  }

  /** Resolves with the answer for this spend alone: `taken` is 0 or 1. */
  add(spend: Spend): Promise<Answer | undefined> {
    const { teamId, limit, cost, key } = spend;
    let ask = this.#lastOf.get(teamId);
    if (ask?.limit !== limit || ask.cost !== cost || !isSame(ask.key, key)) {
      ask = { teamId, limit, cost, key, count: 0, waiting: [] };
      this.asks.push(ask);
      this.#lastOf.set(teamId, ask);
    }
    const { waiting } = ask;
    ask.count += 1;
    return new Promise((resolve) => void waiting.push(resolve));
  }

  /** Answers the spends of each ask in the order in which they were added. */
  answer(answers: readonly Answer[]): void {
    for (const [n, { cost, waiting }] of this.asks.entries()) {
      const answer = answers[n];
      for (const [nth, resolve] of waiting.entries()) resolve(answer && answerOf(answer, cost, nth));
    }
  }
}

interface WaitingAsk extends Ask {
  count: number;
  readonly waiting: ((answer: Answer | undefined) => void)[];
}

function isSame(one: KeyLimit | undefined, other: KeyLimit | undefined): boolean {
  return one === other || (one?.firstKeyId === other?.firstKeyId && one?.limit === other?.limit);
}

/** The answer for the nth of alike spends, of which the first ones were taken. */
function answerOf(answer: Answer, cost: number, nth: number): Answer {
  const { taken, key } = answer;
  if (nth >= taken) return { ...answer, taken: 0 };
  const before = ({ count, resetAfterMs }: LogState): LogState => {
    return { count: count - (taken - 1 - nth) * cost, resetAfterMs, retryAfterMs: 0 };
  };
  return { taken: 1, ...before(answer), ...(key && { key: before(key) }) };
}
