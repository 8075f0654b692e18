import type { Clock } from "../../base/clock.ts";
import { bounds } from "../../bounds.ts";
import type { KeyLimit, Spend } from "../limit-decision.ts";
import { type LimitTimers, startLoopAwareTimeout } from "../timers.ts";
import { RedisTrouble } from "./redis-trouble.ts";
import type { Answer, Ask, LogState, OpenSharedLogs, SharedLogs } from "./shared-logs.ts";

interface ReconnectingRedisParts {
  readonly open: OpenSharedLogs;
  readonly clock: Clock;
  readonly timers: LimitTimers;
  /** Called when the connection is dropped, before its spends end without an answer. */
  readonly onDropped: (cause: unknown) => void;
  /** Called when an attempt to open a connection anew has failed. */
  readonly onReopenFailed: (cause: unknown) => void;
  /** Called when there is one again, before anything is spent on it. */
  readonly onReturned: () => void;
}

/** Rejects as `open` does where the first connection can't be opened. */
export async function createReconnectingRedis(parts: ReconnectingRedisParts): Promise<ReconnectingRedis> {
  const redis = new ReconnectingRedis(parts);
  await redis.connect();
  return redis;
}

/**
 * The shared logs over one connection, with one call in each tick of the event loop for all spends
 * of that tick. The connection is dropped when a call fails, or takes longer than `redisCallMsMax`
 * while this process is not busy with other work. Then it is opened anew, once in `redisReopenMs`
 * at most.
 */
class ReconnectingRedis {
  readonly #parts: ReconnectingRedisParts;
  #logs: SharedLogs | undefined;
  #openedMs = 0;
  #isClosed = false;
  /** Filled in this tick, and not sent yet. */
  #filling: Batch | undefined;
  /** What has no answer yet; with a timeout while a call is under way. */
  readonly #unanswered = new Map<Batch, ReturnType<typeof startLoopAwareTimeout> | undefined>();
  /** How long calls have lately taken because this process was busy. */
  #lagMs = 0;

  constructor(parts: ReconnectingRedisParts) {
    this.#parts = parts;
  }

  async connect(): Promise<void> {
    this.#openedMs = this.#parts.clock.monotonicMs();
    let opened: SharedLogs | undefined;
    opened = await this.#parts.open((cause) => {
      if (opened && opened === this.#logs) this.#drop(cause);
    });
    if (this.#isClosed) opened.close();
    else this.#logs = opened;
  }

  /** Whether there is a connection of use: only then may anything be spent. */
  isOpen(): boolean {
    return this.#logs !== undefined;
  }

  /** Resolves with undefined where it is not known what became of the spend. */
  spend(spend: Spend): Promise<Answer | undefined> {
    const filling = this.#filling?.hasRoom() ? this.#filling : this.#newBatch();
    return filling.add(spend);
  }

  #newBatch(): Batch {
    const batch = new Batch();
    this.#filling = batch;
    this.#unanswered.set(batch, undefined);
    this.#parts.timers.soon(() => void this.#send(batch, bounds.sharedCallRepeatsMax));
    return batch;
  }

  /** Ends the connection, and its spends without an answer. */
  close(): void {
    this.#isClosed = true;
    this.#end();
  }

  #drop(cause: unknown): void {
    const dropped = this.#logs;
    this.#logs = undefined;
    this.#parts.onDropped(cause);
    this.#end(dropped);
    this.#reopenLater();
  }

  #end(dropped = this.#logs): void {
    this.#logs = undefined;
    dropped?.close();
    for (const [batch, timeout] of this.#unanswered) {
      timeout?.cancel();
      batch.answer([]);
    }
    this.#unanswered.clear();
    this.#filling = undefined;
    this.#lagMs = 0;
  }

  #reopenLater(): void {
    const { clock, timers } = this.#parts;
    const waitMs = Math.max(0, this.#openedMs + bounds.redisReopenMs - clock.monotonicMs());
    if (!this.#isClosed) timers.after(waitMs, () => void this.#reopen());
  }

  async #reopen(): Promise<void> {
    if (this.#isClosed) return;
    try {
      await this.connect();
    } catch (cause) {
      this.#parts.onReopenFailed(cause);
      return this.#reopenLater();
    }
    if (this.#logs) this.#parts.onReturned();
  }

  async #send(batch: Batch, triesLeft: number): Promise<void> {
    const logs = this.#logs;
    if (!logs || !this.#unanswered.has(batch)) return;
    if (this.#filling === batch) this.#filling = undefined;
    const { clock } = this.#parts;
    const sentMs = clock.monotonicMs();
    const timeout = this.#startTimeout(batch);
    // The first call that takes too long ends the connection, and so the others with it.
    const giveUpMs = Math.min(...[...this.#unanswered.values()].map((each) => each?.endsMs() ?? Infinity));
    let answers: readonly Answer[] | undefined;
    try {
      answers = await logs.spend(batch.asks, giveUpMs);
    } catch (cause) {
      return this.#fail(batch, cause);
    } finally {
      timeout.cancel();
    }
    if (!this.#unanswered.has(batch)) return;
    this.#unanswered.set(batch, undefined);
    if (answers) {
      this.#lagMs /= 2;
      this.#unanswered.delete(batch);
      batch.answer(answers);
    } else if (triesLeft > 0) {
      // It was written, or read, so late that nothing was spent: this process is busy.
      this.#lagMs = Math.min(clock.monotonicMs() - sentMs, bounds.sharedCallLagMsMax);
      void this.#send(batch, triesLeft - 1);
    } else this.#fail(batch, new RedisTrouble("too late"));
  }

  #startTimeout(batch: Batch): ReturnType<typeof startLoopAwareTimeout> {
    const msMax = bounds.redisCallMsMax;
    const over = () => this.#fail(batch, new RedisTrouble(`silent for ${msMax} ms`));
    const timeout = startLoopAwareTimeout(this.#parts, { msMax, startMs: this.#lagMs, over });
    this.#unanswered.set(batch, timeout);
    return timeout;
  }

  #fail(batch: Batch, cause: unknown): void {
    if (this.#unanswered.has(batch)) this.#drop(cause);
  }
}

/**
 * The spends of one tick. Alike spends of a team become one ask: the order within a team is kept,
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
