import { bounds } from "../config.ts";
import { mayHavePrefix } from "../keys/key-value.ts";
import type { Log } from "../log.ts";
import type { Stores } from "../store/stores.ts";

/**
 * Warns, once, where the newest active key of one of the first teams was made with another prefix, as all such keys
 * are refused. It is a look and no proof: of older keys and later teams it knows nothing.
 */
export async function warnOfOtherPrefix(
  { teams, keys }: Pick<Stores, "teams" | "keys">,
  { keyPrefix, log }: { keyPrefix: string; log: Log },
): Promise<void> {
  try {
    for (const { id: teamId } of await teams.list({ limit: bounds.keyPrefixTeamsMax })) {
      const [newest] = await keys.list({ teamId, limit: 1, includeRevoked: false });
      if (newest === undefined || mayHavePrefix(newest.redactedValue, keyPrefix)) continue;
      const facts = { teamId, keyId: newest.id, keyPrefix };
      return log.warn(
        facts,
        "keys were made with another KEYRUN_KEY_PREFIX: they are refused until it is set back",
      );
    }
  } catch (cause) {
    // Whoever needs what can't be read is told when it is asked for: for a look the start goes on.
    log.debug({ cause }, "the prefix of the store's keys could not be looked at");
  }
}
