/**
 * The use cases that a key's creation and revocation share: of a member, of the command line, and
 * of the finder of a key.
 */

import type { KeyEvidence } from "../auth/key-evidence.ts";
import { actorOf, type Call, type Principal } from "../auth/principal.ts";
import type { Clock } from "../base/clock.ts";
import type { RandomBytes } from "../base/ids.ts";
import type { RecordSource } from "../cache/record-source.ts";
import type { ChangeSecurityState, FlooredChange } from "../fleet/security-state.ts";
import { fail } from "../refusal/refusal.ts";
import { whileTeamsStay } from "../teams/find-team.ts";
import type { TeamRecord } from "../teams/team-store.ts";
import type { KeyEvent } from "./key-events.ts";
import { deletedKeyVersion } from "./key-life.ts";
import { keyNotFound } from "./key-message.ts";
import type { InsertKeyOutcome, KeyRecord, KeyStore } from "./key-store.ts";
import { createExpireKeys, type ExpireKeys, type ExpireKeysParts } from "./key-sweep.ts";
import { type KeyForm, redactKeyValue } from "./key-value.ts";
import type { ServiceSecrets } from "./service-secrets.ts";
import { changedKey } from "./verify-key.ts";

/** The use cases of a team's keys. */
export interface Keyring {
  /** Creates a key. `value` is the only copy of the full value that there will ever be. */
  create(
    facts: KeyFacts,
    call: Pick<Call, "principal" | "subject">,
  ): Promise<{ readonly key: KeyRecord; readonly value: string }>;
  /** As `KeyStore.list`, with the last uses that are not written yet. */
  readonly list: KeyStore["list"];
  readonly placeOf: KeyStore["placeOf"];
  /** As `KeyStore.countActive`, without keys whose expiry has come. */
  readonly countActive: KeyStore["countActive"];
  readonly countRevoked: KeyStore["countRevoked"];
  /**
   * Revokes for ever. Once it resolves, no request that is sent later is accepted. Revoking again
   * is no error.
   */
  revoke(order: { teamId: string; keyId: string; by: Principal | typeof leakReport }): Promise<KeyRecord>;
  readonly expireKeys: ExpireKeys;
  /** The key with a last use that is not written yet. */
  withLastUse(key: KeyRecord): KeyRecord;
}

/** In place of an actor: somebody who had the key itself, and of whom nothing more is known. */
export const leakReport = "a leak report";

export interface KeyringParts extends NewKeyParts {
  readonly store: KeyStore;
  readonly teams: RecordSource<TeamRecord>;
  readonly activeMax: number;
  /** The stored last use or the one that is still in memory, whichever is later. */
  readonly lastUseTimeMs: (keyId: string, stored: number | null) => number | null;
  readonly changeSecurityState: ChangeSecurityState<"key", FlooredChange<KeyEvidence>>;
  /**
   * Called after the durable write, for the watchers of the team. A repeated revocation is
   * published again. In a fleet it does nothing: there, what `changeSecurityState` tells every
   * instance is published.
   */
  readonly publish: (event: KeyEvent) => void;
  readonly expiring: ExpireKeysParts["expiring"];
}

/**
 * Throws the refusals REQUEST_ID_USED, KEY_LIMIT_REACHED, KEY_NOT_FOUND and
 * TEAM_ENDING, and those of the store.
 */
export function createKeyring(parts: KeyringParts): Keyring {
  const { clock, store, teams, activeMax, lastUseTimeMs, changeSecurityState, publish } = parts;
  /** Tells the other instances too: their caches may say that the id does not exist. */
  const insert = (key: KeyRecord): Promise<InsertKeyOutcome> =>
    changeSecurityState(
      "key",
      () => store.insert(key, { activeMax }),
      ({ kind }) =>
        kind === "inserted"
          ? { id: key.id, version: key.version, teamId: key.teamId, grants: true }
          : undefined,
    );
  /** Nobody has its value yet, so no instance can have admitted it. */
  const remove = ({ id, teamId }: KeyRecord) =>
    changeSecurityState("key", () => store.delete(id), {
      id,
      version: deletedKeyVersion,
      teamId,
      grants: true,
    });
  const withLastUse = (key: KeyRecord) => ({
    ...key,
    lastUseTimeMs: lastUseTimeMs(key.id, key.lastUseTimeMs),
  });
  const expireKeys = createExpireKeys({ ...parts, withLastUse });
  /** Only in a team at its bound, keys that have expired and are not marked yet are looked for. */
  async function insertExpiring(key: KeyRecord): Promise<InsertKeyOutcome> {
    const outcome = await insert(key);
    if (outcome.kind !== "limit_reached") return outcome;
    await expireKeys(key.teamId);
    return insert(key);
  }

  return {
    async create(facts, { principal, subject }) {
      const { minted, value } = mintKey(parts, principal);
      const key: KeyRecord = { ...facts, ...minted };
      subject.target = key.id;
      const outcome = await whileTeamsStay(
        teams,
        { teamIds: [key.teamId] },
        {
          write: () => insertExpiring(key),
          undo: async ({ kind }) => kind === "inserted" && (await remove(key)),
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
    async countActive(teamId) {
      await expireKeys(teamId);
      return store.countActive(teamId);
    },
    countRevoked: (teamId, max) => store.countRevoked(teamId, max),
    async revoke({ teamId, keyId, by }) {
      const revokedBy = by === leakReport ? by : actorOf(by);
      // Also for a key that is revoked already: each answer promises that no later request is
      // accepted.
      const key = await changeSecurityState(
        "key",
        () => store.revoke({ teamId, keyId, revokeTimeMs: clock.unixMs(), revokedBy }),
        (written) => written && changedKey(written),
      );
      if (!key) throw keyNotFound(teamId, keyId);
      const revoked = withLastUse(key);
      publish({ kind: "revoked", key: revoked });
      return revoked;
    },
    expireKeys,
    withLastUse,
  };
}

interface NewKeyParts {
  readonly clock: Pick<Clock, "unixMs">;
  readonly form: KeyForm;
  readonly secrets: ServiceSecrets;
  readonly randomBytes: RandomBytes;
}

/** What is chosen for a key: all of its record that it does not begin with by itself. */
type KeyFacts = Omit<KeyRecord, keyof ReturnType<typeof mintKey>["minted"]>;

/**
 * What every key begins with, whatever it is for, and the only copy of its full value. A successor
 * has all other fields from the key that it replaces.
 */
export function mintKey({ clock, form, secrets, randomBytes }: NewKeyParts, by: Principal) {
  const { id, value } = form.mint(randomBytes);
  const minted = {
    id,
    redactedValue: redactKeyValue(value),
    digest: secrets.digestNewest(value).toString("base64url"),
    secretVersion: secrets.newestVersion,
    createTimeMs: clock.unixMs(),
    createdBy: actorOf(by),
    lastUseTimeMs: null,
    revokeTimeMs: null,
    revokedBy: null,
    expiredTimeMs: null,
    replacesKeyId: null,
    replacedByKeyId: null,
    firstKeyId: null,
    pendingSinceMs: null,
    version: 1,
  } satisfies Partial<KeyRecord>;
  return { minted, value };
}
