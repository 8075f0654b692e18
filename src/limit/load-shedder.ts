/**
 * Refuses requests while the event loop is overloaded. A timer measures how late it fires:
 * everything that the loop does is as late. Node's `monitorEventLoopDelay` is not used, because its
 * timer may fire after this one, and would then report a stall one interval late.
 */

import type { Clock } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import { addressNetwork } from "./address-block.ts";

export const loadShedderLimits = {
  /** How often the delay of the event loop is measured. */
  intervalMs: 100,
  /** The loop is overloaded once its delays add up to so much. */
  overloadMs: 1_000,
  /** How much of that sum one interval takes away in which the loop was on time. */
  recoveredMs: 200,
  /** Requests of one network that are served in an interval although the loop is overloaded. */
  servedOfNetworkMax: 20,
  /** The same for all callers together. It also bounds how many networks are remembered. */
  servedMax: 640,
  /**
   * A late interval counts as several, as the requests of that time come together: as so many at
   * most, so that what it lets in does not make the next one late.
   */
  intervalsAtOnceMax: 5,
} as const;

/** Called when shedding begins, and when it ends, with how many requests were refused. */
export type OnShedding = (change: { readonly isShedding: boolean; readonly refused: number }) => void;

/**
 * The loop is overloaded after one stall of a second, or several shorter ones that follow each
 * other. A single garbage collection does not overload it. All callers share one loop, so each
 * network is served some requests even then: a caller that floods the loop shuts out nobody else.
 * A known service asks on behalf of many callers, and counts only in the bound for all.
 */
export class LoadShedder {
  readonly #clock: Clock;
  readonly #onShedding: OnShedding;
  #measuredAtMs: number;
  #delaysMs = 0;
  #isShedding = false;
  #refused = 0;
  /** How many intervals the last one counts as. */
  #intervals = 1;
  #served = 0;
  readonly #servedOfNetwork = new Map<string, number>();

  constructor(clock: Clock, onShedding: OnShedding) {
    this.#clock = clock;
    this.#onShedding = onShedding;
    this.#measuredAtMs = clock.monotonicMs();
  }

  /** Measures regularly, until the returned function is called. */
  watch(): () => Promise<void> {
    this.#measuredAtMs = this.#clock.monotonicMs();
    // Node runs timers before it reads sockets, so a stall is known before the requests that
    // came during it are read.
    const timer = setInterval(() => this.measure(), loadShedderLimits.intervalMs).unref();
    return async () => clearInterval(timer);
  }

  /** Measures the event loop once. It is due every `intervalMs`. */
  measure(): void {
    const { intervalMs, overloadMs, recoveredMs, intervalsAtOnceMax } = loadShedderLimits;
    const nowMs = this.#clock.monotonicMs();
    const passedMs = nowMs - this.#measuredAtMs;
    this.#measuredAtMs = nowMs;
    if (passedMs > bounds.eventLoopLagMsMax) this.#delaysMs += passedMs - intervalMs;
    else this.#delaysMs -= recoveredMs;
    this.#delaysMs = Math.min(Math.max(0, this.#delaysMs), overloadMs);
    this.#intervals = Math.min(Math.max(1, Math.floor(passedMs / intervalMs)), intervalsAtOnceMax);
    this.#served = 0;
    this.#servedOfNetwork.clear();
    this.#decide(this.#isShedding ? this.#delaysMs > 0 : this.#delaysMs >= overloadMs);
  }

  #decide(isShedding: boolean): void {
    if (isShedding === this.#isShedding) return;
    this.#isShedding = isShedding;
    this.#onShedding({ isShedding, refused: this.#refused });
    this.#refused = 0;
  }

  /**
   * Whether this request is refused. It counts the request, so call it once for each. `address` is
   * undefined for a known service.
   */
  sheds(address: string | undefined): boolean {
    if (!this.#isShedding || this.#isServed(address)) return false;
    this.#refused += 1;
    return true;
  }

  #isServed(address: string | undefined): boolean {
    const { servedMax, servedOfNetworkMax } = loadShedderLimits;
    if (this.#served >= this.#intervals * servedMax) return false;
    if (address !== undefined) {
      const network = addressNetwork(address);
      const served = this.#servedOfNetwork.get(network) ?? 0;
      if (served >= this.#intervals * servedOfNetworkMax) return false;
      this.#servedOfNetwork.set(network, served + 1);
    }
    this.#served += 1;
    return true;
  }
}
