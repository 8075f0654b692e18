import type { Clock } from "../../base/clock.ts";

/** What is known of the clock of a server, from the times that it told. */
export interface ServerClock {
  /** The server told this time, and it was read just now. */
  learn(serverUs: number): void;
  /**
   * The server's time in microseconds at this moment of the monotonic clock. Never later than the
   * true one, except for what the two clocks drift apart in 20 s.
   */
  atUs(monotonicMs: number): number;
}

/**
 * An answer is read some time after the server wrote its time into it. So each bounds the server's
 * clock from below, and the answer that travelled fastest bounds it best.
 */
export function createServerClock(clock: Clock, serverUs: number): ServerClock {
  const offset = (us: number) => us - clock.monotonicMs() * 1_000;
  let [newest, older] = [offset(serverUs), offset(serverUs)];
  let turnMs = clock.monotonicMs() + generationMs;
  return {
    learn(us) {
      if (clock.monotonicMs() >= turnMs) {
        turnMs = clock.monotonicMs() + generationMs;
        [older, newest] = [newest, offset(us)];
      } else newest = Math.max(newest, offset(us));
    },
    atUs: (monotonicMs) => Math.max(newest, older) + monotonicMs * 1_000,
  };
}

const generationMs = 10_000;
