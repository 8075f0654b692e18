import type { Stores } from "#src/store/stores.ts";

/** A real store of keys whose list can't be read while it is broken. */
export function createFailingList() {
  let broken = false;
  return {
    break: () => {
      broken = true;
    },
    repair: () => {
      broken = false;
    },
    onStores: (stores: Stores): Stores => ({
      ...stores,
      keys: {
        ...stores.keys,
        list: async (query) => {
          if (broken) throw new Error("the disk is on fire");
          return stores.keys.list(query);
        },
      },
    }),
  };
}
