import type { KeyEvidence } from "../auth/key-evidence.ts";
import { actorOf, type Principal } from "../auth/principal.ts";
import type { Clock } from "../clock.ts";
import { fail } from "../error.ts";
import type { KeyEvent } from "./key-events.ts";
import type { KeyCursor, KeyRecord, KeyStore } from "./key-store.ts";
import { type KeyForm, type RandomBytes, redactKeyValue } from "./key-value.ts";
import type { ServiceSecrets } from "./service-secrets.ts";

/** The use cases of a team's keys. */
export interface Keyring {
  /** Creates a key; `value` is the only copy of the full value there will ever be. */
  create(order: { teamId: string; label: string; requestId: string | null; by: Principal }): Promise<{
    readonly key: KeyRecord;
    readonly value: string;
  }>;
  /** As `KeyStore.list`, with the uses that are not written yet. */
  list(query: {
    teamId: string;
    limit: number;
    after?: KeyCursor;
    includeRevoked: boolean;
  }): Promise<KeyRecord[]>;
  countActive(teamId: string): Promise<number>;
  /** Revokes for ever: once it resolves, no request that is sent later is accepted. Repeating it is no error. */
  revoke(order: { teamId: string; keyId: string; by: Principal }): Promise<KeyRecord>;
}

export interface KeyringParts {
  readonly clock: Clock;
  readonly store: KeyStore;
  readonly form: KeyForm;
  readonly secrets: ServiceSecrets;
  readonly randomBytes: RandomBytes;
  readonly activeMax: number;
  /** The stored last use or the one still held in memory, whichever is later. */
  readonly lastUseTimeMs: (keyId: string, stored: number | null) => number | null;
  /** Raises the key's floor: evidence below the version is void from now on, also what is being read this moment. */
  readonly raiseFloor: (evidence: KeyEvidence) => void;
  /** Tells who watches the team, after the durable write. A repeated revocation is told again. */
  readonly publish: (event: KeyEvent) => void;
}

export function createKeyring(parts: KeyringParts): Keyring {
  const { clock, store, activeMax, lastUseTimeMs, raiseFloor, publish } = parts;
  const withLastUse = (key: KeyRecord) => ({
    ...key,
    lastUseTimeMs: lastUseTimeMs(key.id, key.lastUseTimeMs),
  });

  return {
    async create(order) {
      const { key, value } = mintKey(parts, order);
      const outcome = await store.insert(key, { activeMax });
      if (outcome.kind === "request_id_used") {
        throw fail("REQUEST_ID_USED", { param: "request_id", metadata: { key_id: outcome.keyId } });
      }
      if (outcome.kind === "limit_reached") {
        throw fail("KEY_LIMIT_REACHED", { metadata: { active_key_count_max: String(activeMax) } });
      }
      publish({ kind: "created", key });
      return { key, value };
    },
    async list(query) {
      return (await store.list(query)).map(withLastUse);
    },
    countActive: (teamId) => store.countActive(teamId),
    async revoke({ teamId, keyId, by }) {
      const revokedBy = actorOf(by);
      const key = await store.revoke({ teamId, keyId, revokeTimeMs: clock.unixMs(), revokedBy });
      if (!key) throw fail("KEY_NOT_FOUND", { param: "key_id", metadata: { key_id: keyId.slice(0, 64) } });
      // After the durable write and before the answer, and also on a repeat: the promise is made at each answer.
      raiseFloor(evidenceOf(key));
      const revoked = withLastUse(key);
      publish({ kind: "revoked", key: revoked });
      return revoked;
    },
  };
}

/** What verifying needs of a stored key. */
export function evidenceOf(key: KeyRecord): KeyEvidence {
  const { id, teamId, secretVersion, revokeTimeMs, version } = key;
  return { id, teamId, secretVersion, revokeTimeMs, version, digest: Buffer.from(key.digest, "base64url") };
}

function mintKey(
  { clock, form, secrets, randomBytes }: KeyringParts,
  order: { teamId: string; label: string; requestId: string | null; by: Principal },
) {
  const { id, value } = form.mint(randomBytes);
  const secretVersion = secrets.newestVersion;
  const digest = secrets.digest(secretVersion, value);
  if (!digest) throw new Error("The newest service secret is gone.");
  const key: KeyRecord = {
    id,
    teamId: order.teamId,
    label: order.label,
    redactedValue: redactKeyValue(value),
    digest: digest.toString("base64url"),
    secretVersion,
    requestId: order.requestId,
    createTimeMs: clock.unixMs(),
    createdBy: actorOf(order.by),
    lastUseTimeMs: null,
    revokeTimeMs: null,
    revokedBy: null,
    version: 1,
  };
  return { key, value };
}
