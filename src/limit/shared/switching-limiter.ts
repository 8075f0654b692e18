import type { LimitMode } from "../../metrics/metrics.ts";
import { refuseFor, unavailable } from "../../refusal/refusal.ts";
import { type KeyLimit, keyLogId } from "../key-limit.ts";
import { createLimiter, type LimitDecision, type TeamLimiter } from "../limiter.ts";
import type { Standing } from "../standing.ts";
import type { CallBatches } from "./call-batches.ts";
import { type KeptConnectionParts, keepConnection } from "./kept-connection.ts";
import { createLearnedLogs } from "./learned-logs.ts";
import { createOwnShare } from "./own-share.ts";
import type { Answer, LogState } from "./shared-logs.ts";

export interface SwitchingLimiterParts
  extends Omit<KeptConnectionParts, "onDropped" | "onReturned" | "onReopenFailed"> {
  /** What this instance does while the shared logs do not answer. */
  readonly fallback: "share" | "refuse";
  /** Undefined: this instance has no share yet. */
  readonly standing: () => Standing | undefined;
  readonly windowMs: number;
  /** Teams whose requests are counted here, and keys with a limit of their own. */
  readonly logsMax: number;
  readonly keyLogsMax: number;
  readonly events: SharedLimiterEvents;
}

export interface SharedLimiterEvents {
  /** Called once for each change of the mode, and never for a request. */
  readonly modeChanged: (change: {
    readonly mode: LimitMode;
    /** Why the shared logs are of no use; for `shared`, why they were not. */
    readonly cause: unknown;
  }) => void;
  /** An attempt to come back failed. The next one follows in a second. */
  readonly returnFailed?: (cause: unknown) => void;
}

/** A limiter whose logs all instances share. */
export interface SharedLimiter extends TeamLimiter {
  /** What holds now: `shared`, or the fallback. */
  mode(): LimitMode;
  /** Whether all that this instance admitted in the last window is in the shared log. */
  isAllShared(): boolean;
  /** Drops the connection. Spends that wait, and later ones, are refused with UNAVAILABLE. */
  close(): void;
}

/**
 * Counts in the shared logs while they answer. As soon as a call fails or takes too long, it counts
 * by the fallback, and tries to come back. With `share`, for one window after that, a request must
 * be taken by this instance's own share and by the shared log: that log may lack what was admitted
 * meanwhile. An instance without a share takes by the shared log alone then. Rejects as `open` does
 * where the first connection can't be opened.
 */
export async function createSwitchingLimiter(parts: SwitchingLimiterParts): Promise<SharedLimiter> {
  const { clock, windowMs, logsMax, keyLogsMax, fallback, standing, events } = parts;
  const counted = createLimiter({ clock, windowMs, logsMax, keyLogsMax });
  const own = createOwnShare({ own: counted, standing, windowMs });
  const learned = createLearnedLogs(clock, logsMax);
  const learnedOfKeys = createLearnedLogs(clock, keyLogsMax);
  let bothUntilMs = Number.NEGATIVE_INFINITY;
  let apartMs = Number.NEGATIVE_INFINITY;
  let isClosed = false;
  /** Why the shared logs were last of no use. */
  let trouble: unknown;
  const connection = await keepConnection({
    ...parts,
    onDropped(cause) {
      trouble = cause;
      events.modeChanged({ mode: fallback, cause });
    },
    onReopenFailed(cause) {
      trouble = cause;
      events.returnFailed?.(cause);
    },
    onReturned() {
      bothUntilMs = clock.monotonicMs() + windowMs;
      events.modeChanged({ mode: "shared", cause: trouble });
    },
  });

  function spendApart({ id, limit, cost, key }: Spend): LimitDecision {
    if (isClosed) throw unavailable();
    if (fallback === "refuse") throw refuseFor("redis", trouble);
    const decision = own.spend(id, limit, cost, key);
    if (decision.accepted) apartMs = clock.monotonicMs();
    return decision;
  }

  function spendShared(batches: CallBatches, spend: Spend) {
    const { id, limit, cost, key } = spend;
    // Without a share this instance admits nothing apart: what it takes is in the shared log.
    const isHeld = cost > 0 && fallback === "share" && clock.monotonicMs() < bothUntilMs && own.exists();
    const refused = isHeld ? own.hold(id, limit, cost, key) : undefined;
    if (refused) return refused;
    return new Promise<LimitDecision>((resolve, reject) => {
      const settle = (decide: () => LimitDecision) => {
        if (isHeld) own.release(id, cost, key);
        try {
          resolve(decide());
        } catch (thrown) {
          reject(thrown);
        }
      };
      batches.add({
        ...{ teamId: id, limit, cost, key },
        answered: (answer) => settle(() => decided(answer, spend)),
        unanswered: () => settle(() => spendApart(spend)),
      });
    });
  }

  function decided(answer: Answer, { id, limit, cost, key }: Spend): LimitDecision {
    learned.learn(id, answer);
    const accepted = answer.taken === 1;
    if (accepted && fallback === "share") own.record(id, cost, key);
    const stateOf = (log: LogState, itsLimit: number): LimitDecision => ({
      accepted,
      limit: itsLimit,
      remaining: Math.max(0, itsLimit - log.count),
      resetUnixMs: clock.unixMs() + log.resetAfterMs,
      retryAfterMs: log.retryAfterMs,
    });
    if (key === undefined || answer.key === undefined) return stateOf(answer, limit);
    learnedOfKeys.learn(keyLogId(id, key.firstKeyId), answer.key);
    return { ...stateOf(answer, limit), key: stateOf(answer.key, key.limit) };
  }

  function lookShared(id: string, limit: number, key: KeyLimit | undefined): LimitDecision {
    const team = learned.look(id, limit);
    return key ? { ...team, key: learnedOfKeys.look(keyLogId(id, key.firstKeyId), key.limit) } : team;
  }

  return {
    spend(id, limit, cost, key) {
      const batches = connection.batches();
      const spend = { id, limit, cost, key };
      return batches ? spendShared(batches, spend) : spendApart(spend);
    },
    look(id, limit, key) {
      const apart = connection.batches() === undefined && fallback === "share";
      return (apart ? own.look(id, limit, key) : undefined) ?? lookShared(id, limit, key);
    },
    isAllShared: () => clock.monotonicMs() >= apartMs + windowMs,
    mode: () => (connection.batches() ? "shared" : fallback),
    close() {
      isClosed = true;
      connection.close();
    },
  };
}

interface Spend {
  readonly id: string;
  readonly limit: number;
  readonly cost: number;
  readonly key: KeyLimit | undefined;
}
