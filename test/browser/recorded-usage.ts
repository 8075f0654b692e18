import type { Stores } from "#src/store/stores.ts";
import { dayMs } from "#src/usage/usage-store.ts";

/** Writes usage into a Keyrun's store, as it would be there after weeks. */
export interface UsageRecorder {
  /** The option of `startKeyrun` that hands over the store. */
  readonly onStores: (stores: Stores) => Stores;
  /** Adds accepted requests of a key: a number for each of the last days, that of today last. */
  record(keyId: string, counts: readonly number[]): Promise<void>;
}

export function createUsageRecorder(): UsageRecorder {
  let usage: Stores["usage"] | undefined;
  return {
    onStores(stores) {
      usage = stores.usage;
      return stores;
    },
    async record(keyId, counts) {
      const today = Math.floor(Date.now() / dayMs);
      const hours = counts.map((acceptedCount, index) => ({
        ...{ teamId: "demo", keyId },
        startTimeMs: (today - counts.length + 1 + index) * dayMs,
        ...{ acceptedCount, limitedCount: 0, failedCount: 0, appMs: acceptedCount },
      }));
      const counted = hours.filter((hour) => hour.acceptedCount > 0);
      await usage?.add({ incarnation: `weeks-ago-${keyId}`, number: 1, hours: counted });
    },
  };
}
