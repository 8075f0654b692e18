/** The number of the schema, which is one for both stores. */

import { StartRefused } from "../refusal/start-refused.ts";

/**
 * The schema that this Keyrun reads and writes. Until the first release it is changed in place.
 * From then on each change raises the number, and a step that only adds brings a store to it.
 */
export const schemaNumber = 15;

/** Throws StartRefused for a store of another schema. An empty one has the number 0. */
export function requireSchemaNumber(found: number): void {
  if (found === 0 || found === schemaNumber) return;
  throw new StartRefused(
    found > schemaNumber
      ? `A newer Keyrun wrote this store: its schema has number ${found}, and this Keyrun knows ${schemaNumber}. Start the newer one again, or restore a copy from before the upgrade.`
      : `This store was made before the first release of Keyrun: its schema has number ${found}, and this Keyrun knows ${schemaNumber} alone. Start with an empty data folder or database.`,
  );
}
