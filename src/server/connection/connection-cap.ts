import { addressBlock } from "../../limit/address-allowance.ts";

/** Counts open connections by address block: one IPv4 address, or one IPv6 /64 network. */
export interface ConnectionCap {
  /**
   * Counts one connection more. Returns false, and counts nothing, if the block has reached its
   * bound.
   */
  admit(address: string): boolean;
  /** Counts one connection less. Call it once for each connection that `admit` allowed. */
  release(address: string): void;
}

/**
 * Allows at most `perAddressMax` concurrent connections for each block of addresses. Exempt
 * addresses are not counted.
 */
export function createConnectionCap(
  perAddressMax: number,
  isExempt: (address: string) => boolean,
): ConnectionCap {
  // A block is removed with its last connection, so the listener's bound on connections bounds this
  // map.
  const open = new Map<string, number>();
  return {
    admit(address) {
      if (isExempt(address)) return true;
      const block = addressBlock(address);
      const count = open.get(block) ?? 0;
      if (count >= perAddressMax) return false;
      open.set(block, count + 1);
      return true;
    },
    release(address) {
      if (isExempt(address)) return;
      const block = addressBlock(address);
      const count = open.get(block);
      if (count === undefined) return;
      if (count === 1) open.delete(block);
      else open.set(block, count - 1);
    },
  };
}
