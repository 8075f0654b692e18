/** Counts open connections by address. */
export interface ConnectionCap {
  /** False where the address has as many as it may; then nothing is counted. */
  admit(address: string): boolean;
  /** Gives back what `admit` granted, once for each. */
  release(address: string): void;
}

/** At most `perAddressMax` connections of one address at once; addresses that are exempt are not counted. */
export function createConnectionCap(
  perAddressMax: number,
  isExempt: (address: string) => boolean,
): ConnectionCap {
  // An address leaves with its last connection, so the listener's own bound on connections bounds this map.
  const open = new Map<string, number>();
  return {
    admit(address) {
      if (isExempt(address)) return true;
      const count = open.get(address) ?? 0;
      if (count >= perAddressMax) return false;
      open.set(address, count + 1);
      return true;
    },
    release(address) {
      const count = open.get(address);
      if (count === undefined) return;
      if (count === 1) open.delete(address);
      else open.set(address, count - 1);
    },
  };
}
