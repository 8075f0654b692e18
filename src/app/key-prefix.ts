import { bounds } from "../bounds.ts";
import { mayHavePrefix } from "../keys/key-value.ts";
import type { Log } from "../log/log.ts";
import type { Stores } from "../store/stores.ts";

/**
 * Warns, once, if one of the first teams has a newest active key with another prefix, because all
 * such keys are refused. It is only a quick look: older keys and later teams are not checked.
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
        "keys were made with another KEYRUN_KEY_PREFIX: these keys are refused until that prefix is set again",
      );
    }
  } catch (cause) {
    // If the store can't be read, the requests that need it report that. This check must not stop
    // the start.
    log.debug({ cause }, "the prefix of the store's keys could not be looked at");
  }
}
