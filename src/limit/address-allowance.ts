import type { Clock } from "../base/clock.ts";
import { addressBlock } from "./address-block.ts";
import type { LimitDecision } from "./limit-decision.ts";
import { createLimiter } from "./limiter.ts";
import { createSemaphore, type Semaphore } from "./semaphore.ts";

/** Bounds the store look-ups that find no valid key, for each address and window. */
export interface AddressAllowance {
  /**
   * What the address has left, for headers. Always `accepted`: an address is never answered 429.
   */
  snapshot(address: string): LimitDecision;
  /**
   * Looks up on behalf of an address and resolves to what `load` found. Spends one where
   * `foundValid` returns false for it, and none where the load failed. As many look-ups of an
   * address run at once as it has left; an address at its bound gets one at a time. A look-up that
   * gets no slot within `waitMsMax` is refused with UNAVAILABLE.
   */
  lookUp<T>(address: string, load: () => Promise<T>, foundValid: (found: T) => boolean): Promise<T>;
  /** How many addresses have a look-up running or waiting. Any other address costs only its log. */
  active(): number;
}

/**
 * The allowance of each address; IPv6 counts by /64. At most `logsMax` addresses are remembered,
 * and the one idle longest is forgotten first. Forgetting costs some look-ups and lets nobody in.
 * Refusing new addresses instead would let a stranger with many addresses shut out all others. At
 * most `waitersMax` look-ups wait at once, over all addresses.
 */
export function createAddressAllowance(options: {
  clock: Clock;
  windowMs: number;
  /** Look-ups of one address in a window that found no valid key. */
  lookupsMax: number;
  logsMax: number;
  waitMsMax: number;
  waitersMax: number;
}): AddressAllowance {
  const { clock, windowMs, lookupsMax, logsMax, waitMsMax, waitersMax } = options;
  const limiter = createLimiter({ clock, windowMs, logsMax, whenFull: "forget" });
  const waiters = { size: 0, sizeMax: waitersMax };
  /** One for each address that has a look-up running or waiting. */
  const semaphores = new Map<string, Semaphore>();

  function semaphoreOf(block: string): Semaphore {
    const open = semaphores.get(block);
    if (open) return open;
    const slots = () => Math.max(1, limiter.peek(block, lookupsMax).remaining);
    const semaphore = createSemaphore({ slots, waitMsMax, waiters, onIdle: () => semaphores.delete(block) });
    semaphores.set(block, semaphore);
    return semaphore;
  }

  return {
    snapshot: (address) => limiter.peek(addressBlock(address), lookupsMax),
    lookUp(address, load, foundValid) {
      const block = addressBlock(address);
      return semaphoreOf(block).run(async () => {
        const found = await load();
        if (!foundValid(found)) limiter.spend(block, lookupsMax);
        return found;
      });
    },
    active: () => semaphores.size,
  };
}
