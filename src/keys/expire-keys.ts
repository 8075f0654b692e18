import type { KeyEvidence } from "../auth/key-evidence.ts";
import type { Clock } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import type { ChangeSecurityState, FlooredChange } from "../fleet/security-state.ts";
import type { KeyEvent } from "./key-events.ts";
import { evidenceOf } from "./key-evidence-of.ts";
import type { KeyRecord, KeyStore } from "./key-store.ts";

/**
 * Marks every key whose expiry has come, of one team or of all. A marked key stays expired,
 * whatever the clock does, and no longer counts among the team's active keys.
 */
export type ExpireKeys = (teamId?: string) => Promise<void>;

const keysAtOnce = bounds.changesPerPushMax;

export interface ExpireKeysParts {
  readonly clock: Pick<Clock, "unixMs">;
  readonly store: KeyStore;
  readonly changeSecurityState: ChangeSecurityState<"key", FlooredChange<KeyEvidence>>;
  readonly withLastUse: (key: KeyRecord) => KeyRecord;
  readonly publish: (event: KeyEvent) => void;
  /**
   * Called before a key is marked, which waits for it. Repeating it does nothing. The key's time is
   * over by then in the store, so the key has expired also if another change comes before the mark.
   */
  readonly expiring: (key: {
    readonly teamId: string;
    readonly keyId: string;
    readonly timeMs: number;
  }) => Promise<void>;
}

/** Calls `publish` with each key that it marks. */
export function createExpireKeys(parts: ExpireKeysParts): ExpireKeys {
  const { clock, store, changeSecurityState, withLastUse, publish, expiring } = parts;
  return async (teamId) => {
    for (let marked: number = keysAtOnce; marked === keysAtOnce; ) {
      const nowMs = clock.unixMs();
      const before = (key: { readonly teamId: string; readonly keyId: string }) =>
        expiring({ ...key, timeMs: nowMs });
      const order = { nowMs, limit: keysAtOnce, before, ...(teamId !== undefined && { teamId }) };
      const changes = await changeSecurityState("key", async () =>
        (await store.markExpired(order)).map((key) => ({
          ...{ id: key.id, version: key.version, teamId: key.teamId, value: evidenceOf(key), key },
          // Every instance refuses the key by its own clock, so nobody waits until all know.
          grants: true,
        })),
      );
      for (const { key } of changes) publish({ kind: "changed", key: withLastUse(key) });
      marked = changes.length;
    }
  };
}
