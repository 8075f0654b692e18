import type { Stores } from "./stores.ts";

/**
 * Returns a check that asks a store what a run asks: a key, a team and an app, each by an id that
 * does not exist. From call to call the id goes through the places where keys are, so the store
 * reads all parts of itself in turn, and not one page that it has in memory.
 */
export function createLookUpEach({ keys, teams, apps }: Pick<Stores, "keys" | "teams" | "apps">) {
  let place = 0;
  return async (): Promise<void> => {
    const id = digits.charAt(place >> 5) + digits.charAt(place & 31);
    await Promise.all([keys.find(id), teams.find(id), apps.find(id)]);
    place = (place + step) % 1024;
  };
}

/** Those of the ids of keys, in their order. */
const digits = "0123456789abcdefghjkmnpqrstvwxyz";
/** Has no factor in common with 1024: every place has its turn, and neighbours are far apart. */
const step = 393;
