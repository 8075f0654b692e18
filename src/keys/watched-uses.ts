import type { Clock } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import type { KeyEvents } from "./key-events.ts";
import type { Keyring } from "./keyring.ts";

/** Tells those who watch a team when its keys are used, on whatever instance. */
export interface WatchedUses {
  /** Starts to look for uses. The timer does not keep the process alive. */
  start(): void;
  /** Waits for the look that runs. */
  close(): Promise<void>;
}

/**
 * Lists the newest active keys of each watched team every `lookMs`, however many watch it, and
 * publishes those whose last use is later than the one that was seen before. A list that fails is
 * left out: the next look tells what it would have told.
 */
export function createWatchedUses(parts: {
  readonly clock: Clock;
  readonly events: Pick<KeyEvents, "publish" | "watchedTeams">;
  readonly list: Keyring["list"];
  readonly lookMs?: number;
}): WatchedUses {
  const { clock, events, list, lookMs = bounds.keyUsesLookMs } = parts;
  /** The latest use that was seen of each team's keys, by key. */
  let seen = new Map<string, ReadonlyMap<string, number>>();
  let timer: NodeJS.Timeout | undefined;
  let looking: Promise<void> | undefined;

  async function look(): Promise<void> {
    const before = seen;
    seen = new Map();
    for (const teamId of events.watchedTeams()) {
      const known = before.get(teamId);
      seen.set(teamId, (await lookAt(teamId, known).catch(() => known)) ?? new Map());
    }
  }

  async function lookAt(
    teamId: string,
    known: ReadonlyMap<string, number> | undefined,
  ): Promise<ReadonlyMap<string, number>> {
    // A caller that began to watch since the last look may have read the list before these uses.
    const sinceMs = clock.unixMs() - bounds.keyUsesTellMs;
    const keys = await list({ teamId, limit: bounds.keyUsesWatchedMax, includeRevoked: false });
    const uses = new Map<string, number>();
    for (const key of keys) {
      const { id, lastUseTimeMs } = key;
      if (lastUseTimeMs === null) continue;
      uses.set(id, lastUseTimeMs);
      if (lastUseTimeMs > (known?.get(id) ?? sinceMs)) events.publish({ kind: "used", key });
    }
    return uses;
  }

  return {
    start() {
      timer ??= setInterval(() => {
        looking ??= look().finally(() => {
          looking = undefined;
        });
      }, lookMs).unref();
    },
    async close() {
      clearInterval(timer);
      await looking;
    },
  };
}
