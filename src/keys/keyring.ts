import type { KeyEvidence } from "../auth/key-evidence.ts";
import { actorOf, type Principal } from "../auth/principal.ts";
import type { RecordSource } from "../cache/record-source.ts";
import type { Clock } from "../clock.ts";
import type { ChangeSecurityState, FlooredChange } from "../fleet/security-state.ts";
import type { RandomBytes } from "../ids/random-bytes.ts";
import { fail, type Refusal } from "../refusal/refusal.ts";
import { whileTeamsStay } from "../teams/find-team.ts";
import type { TeamRecord } from "../teams/team-store.ts";
import { deletedKeyVersion } from "./delete-keys.ts";
import type { KeyEvent } from "./key-events.ts";
import type { KeyRecord, KeyStore } from "./key-store.ts";
import { isKeyId, type KeyForm, redactKeyValue } from "./key-value.ts";
import type { ServiceSecrets } from "./service-secrets.ts";

/** The use cases of a team's keys. */
export interface Keyring {
  /** Creates a key. `value` is the only copy of the full value that there will ever be. */
  create(order: { teamId: string; label: string; requestId: string | null; by: Principal }): Promise<{
    readonly key: KeyRecord;
    readonly value: string;
  }>;
  /** As `KeyStore.list`, with the last uses that are not written yet. */
  readonly list: KeyStore["list"];
  readonly placeOf: KeyStore["placeOf"];
  readonly countActive: KeyStore["countActive"];
  readonly countRevoked: KeyStore["countRevoked"];
  /**
   * Revokes for ever. Once it resolves, no request that is sent later is accepted. Revoking again
   * is no error.
   */
  revoke(order: { teamId: string; keyId: string; by: Principal }): Promise<KeyRecord>;
}

export interface KeyringParts {
  readonly clock: Clock;
  readonly store: KeyStore;
  readonly teams: RecordSource<TeamRecord>;
  readonly form: KeyForm;
  readonly secrets: ServiceSecrets;
  readonly randomBytes: RandomBytes;
  readonly activeMax: number;
  /** The stored last use or the one still held in memory, whichever is later. */
  readonly lastUseTimeMs: (keyId: string, stored: number | null) => number | null;
  readonly changeSecurityState: ChangeSecurityState<"key", FlooredChange<KeyEvidence>>;
  /**
   * Called after the durable write, for the watchers of the team. A repeated revocation is
   * published again.
   */
  readonly publish: (event: KeyEvent) => void;
}

/**
 * Throws the refusals REQUEST_ID_USED, KEY_LIMIT_REACHED, KEY_NOT_FOUND and TEAM_ENDING, and those
 * of the store.
 */
export function createKeyring(parts: KeyringParts): Keyring {
  const { clock, store, teams, activeMax, lastUseTimeMs, changeSecurityState, publish } = parts;
  const remove = (keyId: string) =>
    changeSecurityState("key", async () => {
      await store.delete(keyId);
      return { id: keyId, version: deletedKeyVersion };
    });
  const withLastUse = (key: KeyRecord) => ({
    ...key,
    lastUseTimeMs: lastUseTimeMs(key.id, key.lastUseTimeMs),
  });

  return {
    async create(order) {
      const { key, value } = mintKey(parts, order);
      const outcome = await whileTeamsStay(
        teams,
        { teamIds: [key.teamId] },
        {
          write: () => store.insert(key, { activeMax }),
          // Nobody has the value yet.
          undo: async ({ kind }) => kind === "inserted" && (await remove(key.id)),
        },
      );
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
    placeOf: (n, query) => store.placeOf(n, query),
    countActive: (teamId) => store.countActive(teamId),
    countRevoked: (teamId, max) => store.countRevoked(teamId, max),
    async revoke({ teamId, keyId, by }) {
      const revokedBy = actorOf(by);
      // Also for a key that is revoked already: each answer promises that no later request is
      // accepted.
      const change = await changeSecurityState("key", async () => {
        const key = await store.revoke({ teamId, keyId, revokeTimeMs: clock.unixMs(), revokedBy });
        return key && { id: key.id, version: key.version, value: evidenceOf(key), key };
      });
      if (!change) throw keyNotFound(teamId, keyId);
      const revoked = withLastUse(change.key);
      publish({ kind: "revoked", key: revoked });
      return revoked;
    },
  };
}

/** Repeats an id only if it has the form of one: people do send a whole key in its place. */
function keyNotFound(teamId: string, keyId: string): Refusal {
  const param = "key_id";
  const metadata = { team_id: teamId };
  if (!isKeyId(keyId)) return fail("KEY_NOT_FOUND", { param, metadata });
  const problem = `Team \`${teamId}\` has no key \`${keyId}\`.`;
  return fail("KEY_NOT_FOUND", { param, problem, metadata: { ...metadata, key_id: keyId } });
}

/** The part of a stored key that verifying needs. */
export function evidenceOf(key: KeyRecord): KeyEvidence {
  const { id, teamId, secretVersion, revokeTimeMs, version } = key;
  return { id, teamId, secretVersion, revokeTimeMs, version, digest: Buffer.from(key.digest, "base64url") };
}

function mintKey(
  { clock, form, secrets, randomBytes }: KeyringParts,
  order: { teamId: string; label: string; requestId: string | null; by: Principal },
) {
  const { id, value } = form.mint(randomBytes);
  const key: KeyRecord = {
    id,
    teamId: order.teamId,
    label: order.label,
    redactedValue: redactKeyValue(value),
    digest: secrets.digestNewest(value).toString("base64url"),
    secretVersion: secrets.newestVersion,
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
