import type { Clock } from "../base/clock.ts";
import { bounds } from "../bounds.ts";

export const loopDelayLimits = {
  /** How often the event loop is looked at. */
  lookMs: 20,
  /** The same while no request comes, so that an idle process can sleep. */
  idleLookMs: 250,
  /** The looks of the sliding window: half a second of a loop that is on time. */
  looksMax: 25,
  /** The delay of which one request in a hundred may see more. */
  lagMsMax: bounds.eventLoopLagMsMax,
  /** What the late looks of the window add up to, at least, in a loop that is overloaded. */
  lateMsMin: 1_000,
} as const;

/**
 * How late the event loop is. `look` is due every `lookMs`, or when `nextAfter` said. By how much
 * it comes late, everything that the loop does comes late. The window is the last `looksMax` looks,
 * and not a time: a stall of 2 s is one look of it, which has left it after half a second in which
 * the loop was on time.
 *
 * The p99 is that of requests which come at any time: a stall is one look, but many requests come
 * during it. So a single garbage collection of 210 ms moves it over the bound. Such pauses happen
 * on an idle process that shares its processors with a build. Nothing is won by refusing requests
 * after one: the loop has caught up. Therefore the loop is overloaded only if its late looks also
 * add up to a second. That is one stall of a second, or several shorter ones without half a second
 * between them in which the loop was on time.
 */
export class LoopDelay {
  readonly #clock: Clock;
  readonly #delaysMs = new Float64Array(loopDelayLimits.looksMax);
  #at = 0;
  #lastMs: number;
  /** When the next look is due, from the last one. */
  #dueMs: number = loopDelayLimits.lookMs;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#lastMs = clock.monotonicMs();
  }

  /** Measures from now on. What was before, such as the start of the process, does not count. */
  begin(): void {
    this.#lastMs = this.#clock.monotonicMs();
  }

  /** The next look is due so long after the last one. */
  nextAfter(ms: number): void {
    this.#dueMs = ms;
  }

  /** Returns how many times `lookMs` have passed since the last look, and 1 at least. */
  look(): number {
    const { lookMs, looksMax } = loopDelayLimits;
    const nowMs = this.#clock.monotonicMs();
    const passedMs = nowMs - this.#lastMs;
    this.#lastMs = nowMs;
    this.#delaysMs[this.#at] = Math.max(0, passedMs - this.#dueMs);
    this.#at = (this.#at + 1) % looksMax;
    return Math.max(1, Math.floor(passedMs / lookMs));
  }

  isOverloaded(): boolean {
    const { lagMsMax, lateMsMin } = loopDelayLimits;
    let lateMs = 0;
    for (const delayMs of this.#delaysMs) if (delayMs > lagMsMax) lateMs += delayMs;
    return lateMs >= lateMsMin && this.p99Ms() > lagMsMax;
  }

  /**
   * Returns the delay of which one in a hundred of the requests saw more that came at any time of
   * the window. A look that is late by d delays those that come in these d ms by d to 0 ms.
   */
  p99Ms(): number {
    const { lookMs, looksMax } = loopDelayLimits;
    const longestFirst = this.#delaysMs.toSorted().reverse();
    const delayedMs = longestFirst.reduce((sum, delayMs) => sum + delayMs, 0);
    const hundredthMs = (looksMax * lookMs + delayedMs) / 100;
    let sumMs = 0;
    for (let count = 1; count <= looksMax; count += 1) {
      sumMs += longestFirst[count - 1] ?? 0;
      // The time in which a request waits for longer than this, in the `count` longest looks.
      const delayMs = (sumMs - hundredthMs) / count;
      if (delayMs >= (longestFirst[count] ?? 0)) return delayMs;
    }
    return 0;
  }
}
