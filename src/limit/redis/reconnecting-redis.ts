import type { Clock } from "../../base/clock.ts";
import { bounds } from "../../bounds.ts";
import type { KeyLimit, Spend } from "../limit-decision.ts";
import { type LimitTimers, startLoopAwareTimeout } from "../timers.ts";
import { RedisTrouble } from "./redis-trouble.ts";
import type { Answer, Ask, LogState, OpenSharedLogs, SharedLogs } from "./shared-logs.ts";

/**
 * The shared logs over one connection, with one call in each turn of the event loop for all spends
 * of that turn. The connection is dropped when a call fails, or takes longer than `redisCallMsMax`
 * while this process is not busy with other work. Then it is opened anew, once in `redisReopenMs`
 * at most. Rejects as `open` does where the first one can't be opened.
 */
export async function createReconnectingRedis(parts: {
  readonly open: OpenSharedLogs;
  readonly clock: Clock;
  readonly timers: LimitTimers;
  /** Called when the connection is dropped, before its spends end without an answer. */
  readonly onDropped: (cause: unknown) => void;
  /** Called when an attempt to open a connection anew has failed. */
  readonly onReopenFailed: (cause: unknown) => void;
  /** Called when there is one again, before anything is spent on it. */
  readonly onReturned: () => void;
}) {
  const { open, clock, timers } = parts;
  const msMax = bounds.redisCallMsMax;
  let logs: SharedLogs | undefined;
  let openedMs = 0;
  let isClosed = false;
  /** Filled in this turn, and not sent yet. */
  let filling: Batch | undefined;
  /** What has no answer yet; with a timeout while a call is under way. */
  const unanswered = new Map<Batch, ReturnType<typeof startLoopAwareTimeout> | undefined>();
  /** How long calls have lately taken because this process was busy. */
  let lagMs = 0;

  async function connect(): Promise<void> {
    openedMs = clock.monotonicMs();
    let opened: SharedLogs | undefined;
    opened = await open((cause) => {
      if (opened && opened === logs) drop(cause);
    });
    if (isClosed) opened.close();
    else logs = opened;
  }

  function drop(cause: unknown): void {
    const dropped = logs;
    logs = undefined;
    parts.onDropped(cause);
    end(dropped);
    reopenLater();
  }

  function end(dropped: SharedLogs | undefined): void {
    dropped?.close();
    for (const [batch, timeout] of unanswered) {
      timeout?.cancel();
      batch.answer([]);
    }
    unanswered.clear();
    filling = undefined;
    lagMs = 0;
  }

  function reopenLater(): void {
    const waitMs = Math.max(0, openedMs + bounds.redisReopenMs - clock.monotonicMs());
    if (!isClosed) timers.after(waitMs, () => void reopen());
  }

  async function reopen(): Promise<void> {
    if (isClosed) return;
    try {
      await connect();
    } catch (cause) {
      parts.onReopenFailed(cause);
      return reopenLater();
    }
    if (logs) parts.onReturned();
  }

  async function send(batch: Batch, triesLeft: number): Promise<void> {
    if (!logs || !unanswered.has(batch)) return;
    if (filling === batch) filling = undefined;
    const fail = (cause: unknown) => {
      if (unanswered.has(batch)) drop(cause);
    };
    const sentMs = clock.monotonicMs();
    const over = () => fail(new RedisTrouble(`silent for ${msMax} ms`));
    const timeout = startLoopAwareTimeout({ clock, timers }, { msMax, startMs: lagMs, over });
    unanswered.set(batch, timeout);
    // The first call that takes too long ends the connection, and so the others with it.
    const giveUpMs = Math.min(...[...unanswered.values()].map((each) => each?.endsMs() ?? Infinity));
    let answers: readonly Answer[] | undefined;
    try {
      answers = await logs.spend(batch.asks, giveUpMs);
    } catch (cause) {
      return fail(cause);
    } finally {
      timeout.cancel();
    }
    if (!unanswered.has(batch)) return;
    unanswered.set(batch, undefined);
    if (answers) {
      lagMs /= 2;
      unanswered.delete(batch);
      batch.answer(answers);
    } else if (triesLeft > 0) {
      // It was written, or read, so late that nothing was spent: this process is busy.
      lagMs = Math.min(clock.monotonicMs() - sentMs, bounds.sharedCallLagMsMax);
      void send(batch, triesLeft - 1);
    } else fail(new RedisTrouble("too late"));
  }

  await connect();
  return {
    /** Whether there is a connection of use: only then may anything be spent. */
    isOpen: () => logs !== undefined,
    /** Resolves with undefined where it is not known what became of the spend. */
    spend(spend: Spend): Promise<Answer | undefined> {
      if (filling?.hasRoom() !== true) {
        const batch = new Batch();
        filling = batch;
        unanswered.set(batch, undefined);
        timers.soon(() => void send(batch, bounds.sharedCallRepeatsMax));
      }
      return filling.add(spend);
    },
    /** Ends the connection, and its spends without an answer. */
    close() {
      isClosed = true;
      const dropped = logs;
      logs = undefined;
      end(dropped);
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
