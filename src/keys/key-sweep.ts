/**
 * How keys end without a caller: their time is over, their rotation was cut off, or their team is
 * deleted.
 */

import type { KeyEvidence } from "../auth/key-evidence.ts";
import { type Clock, createRepeatedWork, ownTurn } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import type { ChangeSecurityState, FlooredChange } from "../fleet/security-state.ts";
import { keyEndNoticeMs } from "../http/headers.ts";
import type { KeyEvent } from "./key-events.ts";
import { deletedKeyVersion, keyLifeBounds, keyrunActor } from "./key-life.ts";
import type { KeyRecord, KeyStore } from "./key-store.ts";
import { changedKey } from "./verify-key.ts";

/** Looks from time to time after keys that end. The timer does not keep the process alive. */
export interface KeySweep {
  start(): void;
  /** How many keys of all teams expire within 14 days, as counted last. */
  expiringKeys(): number;
  /** Waits for the sweep that runs. */
  close(): Promise<void>;
}

/**
 * Marks keys whose expiry has come, completes rotations that were cut off or takes them back, and
 * counts keys that expire soon. Each instance of a fleet may do it: a key is marked once.
 */
export function createKeySweep(parts: {
  readonly clock: Clock;
  readonly store: KeyStore;
  readonly expireKeys: ExpireKeys;
  readonly changeSecurityState: ChangeSecurityState<"key", FlooredChange<KeyEvidence>>;
  /** Called before a key is revoked, which waits for it. Repeating it does nothing. */
  readonly revoking: ExpireKeysParts["expiring"];
  readonly publish: (event: KeyEvent) => void;
  readonly withLastUse: (key: KeyRecord) => KeyRecord;
  /** Called once the revocation of a replaced key is final. */
  readonly onRevoked: (key: KeyRecord) => void;
  /**
   * Called with the cause when a step fails, and not again until it has succeeded. The next sweep
   * does what is left.
   */
  readonly onFailed: (cause: unknown) => void;
  readonly sweepMs?: number;
}): KeySweep {
  const { clock, store, expireKeys, changeSecurityState, publish, withLastUse, onRevoked, onFailed } = parts;
  const { sweepMs = keyLifeBounds.sweepMs } = parts;
  /** The steps that failed when they were done last. */
  const failing = new Set<string>();
  let expiringKeys = 0;
  let countedMs = Number.NEGATIVE_INFINITY;

  async function sweep(): Promise<void> {
    await step("expire", expireKeys);
    await step("settle", settlePending);
    if (clock.monotonicMs() - countedMs >= keyLifeBounds.countMs) await step("count", count);
  }

  /** A step that fails keeps no other from its work. */
  async function step(name: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
      failing.delete(name);
    } catch (cause) {
      if (!failing.has(name)) onFailed(cause);
      failing.add(name);
    }
  }

  /**
   * Rotations were cut off. Nobody has got the value of a new key that is completed, so it can only
   * be rotated.
   */
  async function settlePending(): Promise<void> {
    const nowMs = clock.unixMs();
    const order = {
      sinceMs: nowMs - keyLifeBounds.pendingMsMax,
      revokeTimeMs: nowMs,
      revokedBy: keyrunActor,
      before: (key: { readonly teamId: string; readonly keyId: string }) =>
        parts.revoking({ ...key, timeMs: nowMs }),
    };
    // Each may release another key, which is a change too.
    const limit = Math.floor(bounds.changesPerPushMax / 2);
    const settled = await changeSecurityState(
      "key",
      () => store.settlePending({ ...order, limit }),
      ({ completed, revoked, predecessors }) => [
        ...completed.map((key) => ({ ...changedKey(key), grants: true })),
        ...[...revoked, ...predecessors].map(changedKey),
      ],
    );
    for (const key of settled.completed) publish({ kind: "created", key });
    for (const key of settled.predecessors) {
      const isRevoked = key.revokeTimeMs !== null;
      publish({ kind: isRevoked ? "revoked" : "changed", key: withLastUse(key) });
      if (isRevoked) onRevoked(key);
    }
    // What was done is announced all the same: the next sweep does not find it.
    if (settled.failed !== undefined) throw settled.failed;
  }

  async function count(): Promise<void> {
    countedMs = clock.monotonicMs();
    const fromMs = clock.unixMs();
    const span = { fromMs, untilMs: fromMs + keyEndNoticeMs, max: keyLifeBounds.expiringKeysCountedMax };
    expiringKeys = await store.countExpiring(span);
  }

  const sweeps = createRepeatedWork(sweep, sweepMs);
  return {
    start() {
      sweeps.start();
      void sweeps.run();
    },
    expiringKeys: () => expiringKeys,
    close: sweeps.stop,
  };
}

const keysAtOnce = bounds.changesPerPushMax;

/**
 * Deletes all keys of a team, as many at a time as one push to the fleet has room for. Calls
 * `before` before each write. Each step waits until every instance knows of the one before.
 * Otherwise a team with many keys would push more changes than the fleet remembers, and a slow
 * instance would drop all that it cached.
 *
 * Keys that were revoked before are pushed, too. If a kill came between their revocation and its
 * push, another instance may still have them in its cache as active, and a new team may get the id.
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
      const ids = await changeSecurityState(
        "key",
        async () => {
          before();
          return store.deleteAll(teamId, keysAtOnce);
        },
        (written) => written.map((id) => ({ id, version: deletedKeyVersion, teamId })),
      );
      for (const id of ids) onDeleted(id);
      deleted = ids.length;
      await ownTurn();
    }
  };
}

/**
 * Marks every key whose expiry has come, of one team or of all. A marked key stays expired,
 * whatever the clock does, and no longer counts among the team's active keys.
 */
export type ExpireKeys = (teamId?: string) => Promise<void>;

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
      const keys = await changeSecurityState(
        "key",
        () => store.markExpired(order),
        // Every instance refuses the key by its own clock, so nobody waits until all know.
        (written) => written.map((key) => ({ ...changedKey(key), grants: true })),
      );
      for (const key of keys) publish({ kind: "changed", key: withLastUse(key) });
      marked = keys.length;
    }
  };
}
