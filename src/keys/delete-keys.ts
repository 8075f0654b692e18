import type { KeyEvidence } from "../auth/key-evidence.ts";
import { ownTurn } from "../base/own-turn.ts";
import { bounds } from "../bounds.ts";
import type { ChangeSecurityState, FlooredChange } from "../fleet/security-state.ts";
import type { KeyStore } from "./key-store.ts";

/** Above every version that a stored key has. */
export const deletedKeyVersion = Number.MAX_SAFE_INTEGER;

const keysAtOnce = bounds.changesPerPushMax;

/**
 * Deletes all keys of a team, as many at a time as one push to the fleet tells of. Calls `before`
 * before each write. Each step waits until every instance knows of the one before. Otherwise a team
 * with many keys would push more changes than the fleet looks back over, and an instance that is
 * merely slower would drop all that it cached.
 *
 * Keys that were revoked before are told too. If their revocation ended before it was pushed, such
 * as by a kill, another instance may still hold them as active, and a new team may get the id.
 */
export function createDeleteKeys({
  store,
  changeSecurityState,
  onDeleted,
}: {
  readonly store: KeyStore;
  readonly changeSecurityState: ChangeSecurityState<"key", FlooredChange<KeyEvidence>>;
  /** Called once no instance accepts the key. */
  readonly onDeleted: (keyId: string) => void;
}): (teamId: string, before: () => void) => Promise<void> {
  return async (teamId, before) => {
    for (let deleted: number = keysAtOnce; deleted === keysAtOnce; ) {
      const changes = await changeSecurityState("key", async () => {
        before();
        const ids = await store.deleteAll(teamId, keysAtOnce);
        return ids.map((id) => ({ id, version: deletedKeyVersion, teamId }));
      });
      for (const { id } of changes) onDeleted(id);
      deleted = changes.length;
      await ownTurn();
    }
  };
}
