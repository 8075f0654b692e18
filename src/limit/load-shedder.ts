import type { Clock } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import { addressBlock, addressNetwork } from "./address-block.ts";

export const loadShedderLimits = {
  /** Requests that are served for each look at the event loop although it is overloaded. */
  servedPerLookMax: 128,
  /** The same for one address; IPv6 counts by /64. */
  servedOfAddressPerLookMax: 2,
  /** The same for one IPv6 /48, because who holds one holds its 65,536 /64. */
  servedOfNetworkPerLookMax: 8,
  /** How many looks a late one stands for, at most. What it lets in must not make the next late. */
  looksAtOnceMax: 10,
} as const;

/** Called when shedding begins, and when it ends, with how many requests were refused. */
export type OnShedding = (change: { readonly isShedding: boolean; readonly refused: number }) => void;

/**
 * Refuses requests while the event loop is overloaded, but never all of them. All callers share one
 * loop, so one of them who floods it, even without a key, makes it late for everybody. If all
 * requests were refused then, that caller would have shut out the others, who without shedding are
 * answered late. So each address is served a few requests a look, and only what is beyond them is
 * refused. The bound for all addresses together is high, because few addresses could use up a low
 * one. A service that is known asks on behalf of many callers: it counts in that bound alone.
 */
export class LoadShedder {
  readonly #delay: LoopDelay;
  readonly #onShedding: OnShedding;
  #isShedding = false;
  /** Whether a request has come since the last look. */
  #isAsked = false;
  #refused = 0;
  #served = 0;
  /** Requests that were served since the last look, by block. At most as many as `#servedMax`. */
  readonly #servedOfBlock = new Map<string, number>();
  /** The same by network. */
  readonly #servedOfNetwork = new Map<string, number>();
  #servedMax = 0;
  #servedOfAddressMax = 0;
  #servedOfNetworkMax = 0;

  constructor(clock: Clock, onShedding: OnShedding) {
    this.#delay = new LoopDelay(clock);
    this.#onShedding = onShedding;
  }

  /** Looks at the event loop by a timer, until the returned function is called. */
  watch(): () => Promise<void> {
    this.begin();
    // Node runs timers before it reads sockets, so what came during a stall meets this look.
    let next: NodeJS.Timeout;
    const lookAfter = (ms: number) => {
      next = setTimeout(() => lookAfter(this.look()), ms).unref();
    };
    lookAfter(loopDelayLimits.lookMs);
    return async () => clearTimeout(next);
  }

  /** Measures from now on: what was late before does not count. */
  begin(): void {
    this.#delay.begin();
  }

  /**
   * Looks at the event loop, and returns after how many milliseconds the next look is due: a
   * process that is idle and on time is looked at seldom.
   */
  look(): number {
    const { lookMs, idleLookMs } = loopDelayLimits;
    this.#lookOnce();
    const nextMs = this.#isAsked || this.#isShedding ? lookMs : idleLookMs;
    this.#isAsked = false;
    this.#delay.nextAfter(nextMs);
    return nextMs;
  }

  #lookOnce(): void {
    const looks = Math.min(this.#delay.look(), loadShedderLimits.looksAtOnceMax);
    this.#served = 0;
    this.#servedOfBlock.clear();
    this.#servedOfNetwork.clear();
    // A loop that stood still has let the requests of that time come together.
    this.#servedMax = looks * loadShedderLimits.servedPerLookMax;
    this.#servedOfAddressMax = looks * loadShedderLimits.servedOfAddressPerLookMax;
    this.#servedOfNetworkMax = looks * loadShedderLimits.servedOfNetworkPerLookMax;
    const isShedding = this.#delay.isOverloaded();
    if (isShedding === this.#isShedding) return;
    this.#isShedding = isShedding;
    this.#onShedding({ isShedding, refused: this.#refused });
    this.#refused = 0;
  }

  /**
   * Whether this request of the address, or of a known service if undefined, is refused. Counts it,
   * so ask once. Costs a write and a read of a boolean where the loop is not overloaded.
   */
  sheds(address: string | undefined): boolean {
    this.#isAsked = true;
    if (!this.#isShedding || this.#isServed(address)) return false;
    this.#refused += 1;
    return true;
  }

  p99Ms(): number {
    return this.#delay.p99Ms();
  }

  #isServed(address: string | undefined): boolean {
    if (this.#served >= this.#servedMax) return false;
    if (address !== undefined && !this.#countOf(address)) return false;
    this.#served += 1;
    return true;
  }

  /** Counts a request of the address, unless it is beyond what the address may have. */
  #countOf(address: string): boolean {
    const block = addressBlock(address);
    const ofBlock = this.#servedOfBlock.get(block) ?? 0;
    if (ofBlock >= this.#servedOfAddressMax) return false;
    const network = addressNetwork(address);
    // An IPv4 address is its own network, and never comes to this bound.
    const ofNetwork = this.#servedOfNetwork.get(network) ?? 0;
    if (ofNetwork >= this.#servedOfNetworkMax) return false;
    this.#servedOfBlock.set(block, ofBlock + 1);
    this.#servedOfNetwork.set(network, ofNetwork + 1);
    return true;
  }
}

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
