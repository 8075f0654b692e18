import type { KeyEvidence } from "../auth/key-evidence.ts";
import { bounds } from "../bounds.ts";
import type { ChangeSecurityState, FlooredChange } from "../fleet/security-state.ts";
import type { KeyStore } from "./key-store.ts";

/** Above every version that a stored key has. */
export const deletedKeyVersion = 3;

/** Deletes all keys of a team, so many at once that no write is long. */
export function createDeleteKeys({
  store,
  changeSecurityState,
}: {
  readonly store: KeyStore;
  readonly changeSecurityState: ChangeSecurityState<"key", FlooredChange<KeyEvidence>>;
}): (teamId: string) => Promise<void> {
  return async (teamId) => {
    for (let deleted: number = bounds.deletedAtOnce; deleted === bounds.deletedAtOnce; ) {
      const changes = await changeSecurityState("key", async () => {
        const ids = await store.deleteAll(teamId, bounds.deletedAtOnce);
        return ids.map((id) => ({ id, version: deletedKeyVersion }));
      });
      deleted = changes.length;
    }
  };
}
