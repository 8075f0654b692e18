import type { Clock } from "../clock.ts";
import { addressBlock } from "./address-block.ts";
import { createGate, type Gate } from "./gate.ts";
import { createLimiter, type LimitDecision } from "./limiter.ts";

/** How many store look-ups that find no valid key an address may cause in a window. */
export interface AddressAllowance {
  /** What is left to the address: for headers. Always `accepted`, as an address is never answered 429. */
  snapshot(address: string): LimitDecision;
  /**
   * Looks up on behalf of an address and answers as `load` does. It spends one where `foundValid` says no to what
   * was found, none where the load failed. Of one address as many run at once as it has left, and at its bound
   * one at a time; one that does not get its turn in `waitMsMax` is refused with UNAVAILABLE.
   */
  lookUp<T>(address: string, load: () => Promise<T>, foundValid: (found: T) => boolean): Promise<T>;
  /** Addresses remembered, addresses with a look-up running or waiting, and look-ups waiting: for metrics. */
  sizes(): { remembered: number; active: number; waiting: number };
}

/**
 * The allowance of each address, IPv6 by /64. At most `logsMax` addresses are remembered, and the one idle
 * longest is forgotten first: that costs some look-ups and lets nobody in, whereas to refuse the newcomer would
 * let a stranger with many addresses shut all others out. At most `waitersMax` wait at once, of all addresses.
 */
export function createAddressAllowance(options: {
  clock: Clock;
  windowMs: number;
  /** Look-ups a window that found no valid key, for one address. */
  lookupsMax: number;
  logsMax: number;
  waitMsMax: number;
  waitersMax: number;
}): AddressAllowance {
  const { clock, windowMs, lookupsMax, logsMax, waitMsMax, waitersMax } = options;
  const limiter = createLimiter({ clock, windowMs, logsMax, whenFull: "forget" });
  const room = { size: 0, sizeMax: waitersMax };
  /** Of the addresses that have a look-up running or waiting. */
  const gates = new Map<string, Gate>();

  function gateOf(block: string): Gate {
    const open = gates.get(block);
    if (open) return open;
    const slots = () => Math.max(1, limiter.look(block, lookupsMax).remaining);
    const gate = createGate({ slots, waitMsMax, room, onIdle: () => gates.delete(block) });
    gates.set(block, gate);
    return gate;
  }

  return {
    snapshot: (address) => limiter.look(addressBlock(address), lookupsMax),
    lookUp(address, load, foundValid) {
      const block = addressBlock(address);
      return gateOf(block).run(async () => {
        const found = await load();
        if (!foundValid(found)) limiter.spend(block, lookupsMax);
        return found;
      });
    },
    sizes: () => ({ remembered: limiter.size(), active: gates.size, waiting: room.size }),
  };
}
