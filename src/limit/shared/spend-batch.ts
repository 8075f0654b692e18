import type { KeyLimit } from "../key-limit.ts";
import type { Answer, Ask, LogState } from "./shared-logs.ts";

/** A spend that waits for its answer. */
export interface Spender {
  readonly teamId: string;
  readonly limit: number;
  readonly cost: number;
  readonly key?: KeyLimit | undefined;
  /** Called with the answer for this spend alone: `taken` is 0 or 1. */
  answered(answer: Answer): void;
  /** Called instead where it is not known what became of the spend. */
  unanswered(): void;
}

/** The spends of one turn of the event loop, which go to the shared logs in one call. */
export interface SpendBatch {
  /** Whether it has room for one more. */
  hasRoom(): boolean;
  add(spender: Spender): void;
  asks(): readonly Ask[];
  /** Gives each spender its answer, in the order in which they were added to their team. */
  answer(answers: readonly Answer[]): void;
  /** Tells each spender that no answer comes. */
  giveUp(): void;
}

/**
 * Alike spends of a team become one ask: the order within a team is kept, and that between teams
 * changes no decision.
 */
export function createSpendBatch(asksMax: number): SpendBatch {
  const asks: WaitingAsk[] = [];
  const lastOf = new Map<string, WaitingAsk>();
  return {
    hasRoom: () => asks.length < asksMax,
    add(spender) {
      const { teamId, limit, cost, key } = spender;
      const last = lastOf.get(teamId);
      if (last?.limit === limit && last.cost === cost && isSame(last.key, key)) {
        last.spenders.push(spender);
        last.count++;
        return;
      }
      const ask = { teamId, limit, cost, key, count: 1, spenders: [spender] };
      asks.push(ask);
      lastOf.set(teamId, ask);
    },
    asks: () => asks,
    answer(answers) {
      for (const [n, ask] of asks.entries()) {
        const answer = answers[n];
        if (answer) answerEach(ask, answer);
        else for (const spender of ask.spenders) spender.unanswered();
      }
    },
    giveUp() {
      for (const { spenders } of asks) for (const spender of spenders) spender.unanswered();
    },
  };
}

interface WaitingAsk extends Ask {
  count: number;
  readonly spenders: Spender[];
}

function isSame(one: KeyLimit | undefined, other: KeyLimit | undefined): boolean {
  return one === other || (one?.firstKeyId === other?.firstKeyId && one?.limit === other?.limit);
}

function answerEach({ cost, spenders }: WaitingAsk, answer: Answer): void {
  const { taken, key } = answer;
  for (const [n, spender] of spenders.entries()) {
    if (n >= taken) spender.answered({ ...answer, taken: 0 });
    else {
      const laterCost = (taken - 1 - n) * cost;
      const keyBefore = key && { key: before(key, laterCost) };
      spender.answered({ taken: 1, ...before(answer, laterCost), ...keyBefore });
    }
  }
}

/** The log before this cost was taken, by a spend that it took. */
function before({ count, resetAfterMs }: LogState, laterCost: number): LogState {
  return { count: count - laterCost, resetAfterMs, retryAfterMs: 0 };
}
