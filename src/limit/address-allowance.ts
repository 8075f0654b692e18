import { isIP } from "node:net";
import type { Clock } from "../base/clock.ts";
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
    const slots = () => Math.max(1, limiter.look(block, lookupsMax).remaining);
    const semaphore = createSemaphore({ slots, waitMsMax, waiters, onIdle: () => semaphores.delete(block) });
    semaphores.set(block, semaphore);
    return semaphore;
  }

  return {
    snapshot: (address) => limiter.look(addressBlock(address), lookupsMax),
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

/**
 * The part of an address that one customer of a provider holds; an allowance is counted by it. An
 * IPv4 address counts whole. An IPv6 address counts by its first 64 bits: the holder of one address
 * holds the other 2^64 of its network too (RFC 6177, RFC 7934). An IPv4-mapped IPv6 address (RFC
 * 4291, 2.5.5.2) counts as the IPv4 address, because a socket that takes both shows the same peer
 * in either form. Texts that are no address count together, as "unknown".
 */
export function addressBlock(address: string): string {
  switch (isIP(address)) {
    case 4:
      return address;
    case 6:
      return blockOfIpv6(address);
    default:
      return "unknown";
  }
}

/**
 * The network that one site gets of its provider: the /48 of an IPv6 address (RFC 6177), which has
 * 65,536 blocks. Anything else is its own block.
 */
export function addressNetwork(address: string): string {
  const block = addressBlock(address);
  if (!block.endsWith("::/64")) return block;
  return `${block.split(":").slice(0, 3).join(":")}::/48`;
}

function blockOfIpv6(address: string): string {
  const groups = groupsOfIpv6(address.replace(/%.*$/, ""));
  const isMapped = groups[5] === 0xffff && groups.slice(0, 5).every((group) => group === 0);
  if (isMapped) {
    return groups
      .slice(6)
      .flatMap((group) => [group >> 8, group & 0xff])
      .join(".");
  }
  return `${groups
    .slice(0, 4)
    .map((group) => group.toString(16))
    .join(":")}::/64`;
}

/** The eight groups of a valid address, shortened or not. */
function groupsOfIpv6(address: string): number[] {
  const [before = "", after] = address.split("::");
  const head = parseGroups(before);
  if (after === undefined) return head;
  const tail = parseGroups(after);
  return [...head, ...Array<number>(8 - head.length - tail.length).fill(0), ...tail];
}

function parseGroups(text: string): number[] {
  if (text === "") return [];
  return text.split(":").flatMap((part) => {
    if (!part.includes(".")) return [Number.parseInt(part, 16)];
    const [a = 0, b = 0, c = 0, d = 0] = part.split(".").map(Number);
    return [(a << 8) | b, (c << 8) | d];
  });
}
