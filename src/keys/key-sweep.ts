import type { KeyEvidence } from "../auth/key-evidence.ts";
import type { Clock } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import type { ChangeSecurityState, FlooredChange } from "../fleet/security-state.ts";
import { keyEndNoticeMs } from "../http/key-end.ts";
import type { ExpireKeys, ExpireKeysParts } from "./expire-keys.ts";
import type { KeyEvent } from "./key-events.ts";
import { evidenceOf } from "./key-evidence-of.ts";
import { keyLifeBounds } from "./key-life-bounds.ts";
import type { KeyRecord, KeyStore, SettledKeys } from "./key-store.ts";
import { keyrunActor } from "./rotate-key.ts";

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
  let timer: NodeJS.Timeout | undefined;
  let sweeping: Promise<void> | undefined;
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
    let settled: SettledKeys = { completed: [], revoked: [], predecessors: [] };
    const changes = await changeSecurityState("key", async () => {
      settled = await store.settlePending({ ...order, limit });
      return [
        ...settled.completed.map((key) => ({ ...changeOf(key), grants: true })),
        ...[...settled.revoked, ...settled.predecessors].map(changeOf),
      ];
    });
    for (const { key, grants } of changes) if (grants) publish({ kind: "created", key });
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

  function begin(): void {
    sweeping ??= sweep().finally(() => {
      sweeping = undefined;
    });
  }

  return {
    start() {
      if (timer) return;
      timer = setInterval(begin, sweepMs).unref();
      begin();
    },
    expiringKeys: () => expiringKeys,
    async close() {
      clearInterval(timer);
      await sweeping;
    },
  };
}

function changeOf(key: KeyRecord): FlooredChange<KeyEvidence> & { readonly key: KeyRecord } {
  const { id, version, teamId } = key;
  return { id, version, teamId, value: evidenceOf(key), key };
}
