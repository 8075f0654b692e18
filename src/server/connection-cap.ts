import { addressBlock } from "../limit/address-block.ts";

/** Counts open connections by address, as far as one caller holds it: an IPv6 address by its network. */
export interface ConnectionCap {
  /** False where the address has as many as it may; then nothing is counted. */
  admit(address: string): boolean;
  /** Gives back what `admit` granted, once for each. */
  release(address: string): void;
}

/** At most `perAddressMax` connections of one block of addresses at once; addresses that are exempt are not counted. */
export function createConnectionCap(
  perAddressMax: number,
  isExempt: (address: string) => boolean,
): ConnectionCap {
  // A block leaves with its last connection, so the listener's own bound on connections bounds this map.
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
