import { useSyncExternalStore } from "react";
import { type Clock, systemClock } from "#src/base/clock.ts";

const tickMs = 1_000;

/**
 * The current time for words such as "3 minutes ago". It changes once a second, for all subscribers
 * at once.
 */
export interface Ticker {
  /** The time of the last tick. */
  unixMs(): number;
  /** The time at this moment, for a wait that must not end too soon. */
  readMs(): number;
  subscribe(onTick: () => void): () => void;
}

export function createTicker(clock: Clock = systemClock): Ticker {
  let nowMs = clock.unixMs();
  let timer: ReturnType<typeof setInterval> | undefined;
  const readers = new Set<() => void>();
  function tick() {
    nowMs = clock.unixMs();
    for (const reader of readers) reader();
  }
  return {
    unixMs: () => nowMs,
    readMs: () => clock.unixMs(),
    subscribe(onTick) {
      readers.add(onTick);
      timer ??= setInterval(tick, tickMs);
      return () => {
        readers.delete(onTick);
        if (readers.size > 0) return;
        clearInterval(timer);
        timer = undefined;
      };
    },
  };
}

/** Words that depend on the time. The component renders again only when they change. */
export function useTicking(ticker: Ticker, words: (nowMs: number) => string): string {
  return useSyncExternalStore(ticker.subscribe, () => words(ticker.unixMs()));
}
