import { afterAll, beforeAll } from "vitest";
import type { Stores } from "#src/store/stores.ts";

/** Opens a new, empty store. After the suite, the opener itself removes its files or database. */
export type OpenStores = () => Promise<Stores>;

/**
 * One store for all tests of the suite around it, and names that no other test of the suite uses.
 */
export function openedStores(open: OpenStores): { stores: () => Stores; newPrefix: () => string } {
  let stores: Stores | undefined;
  let prefixes = 0;
  beforeAll(async () => {
    stores = await open();
  });
  afterAll(() => stores?.close());
  return {
    stores: () => stores!,
    // Later prefixes sort after earlier ones, so a list after a prefix holds this test's records
    // alone.
    newPrefix: () => `t${String(++prefixes).padStart(3, "0")}-`,
  };
}
