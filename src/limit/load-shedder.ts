import type { Clock } from "../base/clock.ts";
import { addressBlock, addressNetwork } from "./address-block.ts";
import { LoopDelay, loopDelayLimits } from "./loop-delay.ts";

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

  /** Measures from now on: what was late before does not count. */
  begin(): void {
    this.#delay.begin();
  }

  /**
   * Looks at the event loop, and returns after how many milliseconds the next look is due: a
   * process that is idle and on time is looked at seldom. Call it by a timer.
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
