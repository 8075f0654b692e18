/**
 * The tokens of internal services: what an admin does with them, and how a call is checked. The
 * value of a token is checked as that of a key is, by a keyed digest, and from the cache of tokens.
 */

import { actorOf, type Call, type Principal } from "../auth/principal.ts";
import {
  type NamedService,
  requireTeamOfService,
  revokedToken,
  type ServiceRole,
  type ServiceTokenVerdict,
  type VerifyServiceToken,
} from "../auth/require-service.ts";
import type { Clock } from "../base/clock.ts";
import type { RandomBytes } from "../base/ids.ts";
import type { RecordSource } from "../cache/record-source.ts";
import type { ChangeSecurityState, FlooredChange } from "../fleet/security-state.ts";
import { createKeyForm, isKeyId, type KeyForm } from "../keys/key-value.ts";
import type { ServiceSecrets } from "../keys/service-secrets.ts";
import { createVerifiedValues, keptBuffer, matchesDigest } from "../keys/verify-key.ts";
import { serviceTokenPrefix } from "../log/redaction.ts";
import { fail } from "../refusal/refusal.ts";
import { whileTeamsStay } from "../teams/find-team.ts";
import type { TeamRecord } from "../teams/team-store.ts";
import {
  type InsertServiceTokenOutcome,
  type ServiceTokenRecord,
  type ServiceTokenStore,
  serviceTokenBounds,
} from "./service-token-store.ts";

/**
 * The use cases of the tokens of internal services. They throw the refusals
 * SERVICE_TOKEN_EXISTS, SERVICE_TOKEN_LIMIT_REACHED, SERVICE_TOKEN_NOT_FOUND, TEAM_NOT_FOUND and
 * TEAM_ENDING, and those of the store.
 */
export function createServiceTokens(parts: ServiceTokensParts) {
  const { clock, store, teams, evidence, lastUseTimeMs, changeSecurityState } = parts;
  const withLastUse = (token: ServiceTokenRecord) => ({
    ...token,
    lastUseTimeMs: lastUseTimeMs(token.id, token.lastUseTimeMs),
  });

  /** Tells the other instances too: their caches may say that the id does not exist. */
  const insert = (token: ServiceTokenRecord): Promise<InsertServiceTokenOutcome> =>
    changeSecurityState(
      "service-token",
      () => store.insert(token, { acceptedMax: serviceTokenBounds.acceptedMax }),
      ({ kind }) =>
        kind === "inserted" ? { id: token.id, version: token.version, grants: true } : undefined,
    );
  /** Nobody has its value yet, so no instance can have accepted it. */
  const remove = ({ id }: ServiceTokenRecord) =>
    changeSecurityState("service-token", () => store.delete(id), {
      id,
      version: deletedTokenVersion,
      grants: true,
    });

  return {
    /** Creates a token. `value` is the only copy of the full value that there will ever be. */
    async create(order: ServiceTokenOrder, { principal, subject }: Pick<Call, "principal" | "subject">) {
      const { token, value } = mintToken(parts, order, principal);
      subject.target = token.id;
      const outcome = await whileTeamsStay(
        teams,
        { teamIds: order.teamIds, param: "team_ids" },
        {
          write: () => insert(token),
          undo: async ({ kind }) => kind === "inserted" && (await remove(token)),
        },
      );
      if (outcome.kind === "name_used") {
        throw fail("SERVICE_TOKEN_EXISTS", { param: "name", metadata: { name: order.name } });
      }
      if (outcome.kind === "limit_reached") {
        const most = String(serviceTokenBounds.acceptedMax);
        throw fail("SERVICE_TOKEN_LIMIT_REACHED", { metadata: { service_token_count_max: most } });
      }
      return { token, value };
    },
    /** As `ServiceTokenStore.list`, with the last uses that are not written yet. */
    async list(query: Parameters<ServiceTokenStore["list"]>[0]) {
      return (await store.list(query)).map(withLastUse);
    },
    /**
     * Revokes for ever. Once it resolves, no request that is sent later is accepted. Revoking again
     * is no error.
     */
    async revoke({ tokenId, by }: { readonly tokenId: string; readonly by: Principal }) {
      const revokedBy = actorOf(by);
      // Also for a token that is revoked already: each answer promises that no later request is
      // accepted.
      const token = await changeSecurityState(
        "service-token",
        () => store.revoke({ tokenId, revokeTimeMs: clock.unixMs(), revokedBy }),
        (written) => written && changedToken(written),
      );
      if (!token) {
        // Only what has the form of an id is repeated: people do send a whole token in its place.
        const metadata = isKeyId(tokenId) ? { service_token_id: tokenId } : {};
        throw fail("SERVICE_TOKEN_NOT_FOUND", { param: "service_token_id", metadata });
      }
      return withLastUse(token);
    },
    /**
     * Takes a team that is deleted from the tokens that name it: a new team may get its id. Calls
     * `before` right before the write, and ends with what it throws.
     */
    async leaveTeam(teamId: string, before: () => void): Promise<void> {
      await changeSecurityState(
        "service-token",
        async () => {
          before();
          return store.leaveTeam(teamId);
        },
        (left) => left.map(changedToken),
      );
    },
    /** Checks a service whose call was admitted and still runs. Others always pass. */
    async check(principal: Principal, teamId: string): Promise<void> {
      if (principal.kind !== "service" || principal.service === undefined) return;
      const { id } = principal.service;
      const found = evidence.peek(id) ?? (await evidence.load(id));
      if (!found || found.revokeTimeMs !== null) throw revokedToken();
      requireTeamOfService(found.service, teamId);
    },
  };
}

function changedToken(token: ServiceTokenRecord): FlooredChange<ServiceTokenEvidence> {
  return { id: token.id, version: token.version, value: evidenceOf(token) };
}

export type ServiceTokens = ReturnType<typeof createServiceTokens>;

/** What a new token is for. */
export interface ServiceTokenOrder {
  readonly name: string;
  readonly role: ServiceRole;
  readonly teamIds: readonly string[];
}

export interface ServiceTokensParts {
  readonly clock: Clock;
  readonly store: ServiceTokenStore;
  readonly teams: RecordSource<TeamRecord>;
  readonly evidence: RecordSource<ServiceTokenEvidence>;
  readonly form: KeyForm;
  readonly secrets: ServiceSecrets;
  readonly randomBytes: RandomBytes;
  /** The stored last use or the one that is still in memory, whichever is later. */
  readonly lastUseTimeMs: (tokenId: string, stored: number | null) => number | null;
  readonly changeSecurityState: ChangeSecurityState<"service-token", FlooredChange<ServiceTokenEvidence>>;
}

/** Above every version of a stored token: it grows by one for each team, and for a revocation. */
const deletedTokenVersion = serviceTokenBounds.teamsMax + 3;

/** Characters of the id that the redacted value shows. */
const redactedIdCharacters = 4;

function mintToken(
  { clock, form, secrets, randomBytes }: ServiceTokensParts,
  order: ServiceTokenOrder,
  by: Principal,
) {
  const { id, value } = form.mint(randomBytes);
  const token: ServiceTokenRecord = {
    id,
    name: order.name,
    role: order.role,
    teamIds: order.teamIds,
    redactedValue: `${serviceTokenPrefix}_${id.slice(0, redactedIdCharacters)}…${value.slice(-4)}`,
    digest: secrets.digestNewest(value).toString("base64url"),
    secretVersion: secrets.newestVersion,
    createTimeMs: clock.unixMs(),
    createdBy: actorOf(by),
    lastUseTimeMs: null,
    revokeTimeMs: null,
    revokedBy: null,
    version: 1,
  };
  return { token, value };
}

/**
 * What the store says of a token, as far as verifying needs it. The cache of service tokens holds
 * it.
 */
export interface ServiceTokenEvidence {
  readonly service: NamedService;
  readonly digest: Buffer;
  readonly secretVersion: string;
  readonly revokeTimeMs: number | null;
  /** This evidence is void where its version is below the token's floor. */
  readonly version: number;
}

/** The part of a stored token that verifying needs. */
export function evidenceOf(token: ServiceTokenRecord): ServiceTokenEvidence {
  const { id, name, role, teamIds, digest, secretVersion, revokeTimeMs, version } = token;
  const service = { id, name, role, teamIds };
  return { service, digest: keptBuffer(digest, "base64url"), secretVersion, revokeTimeMs, version };
}

/** The form of a service token is that of a key, with tags and a prefix that no key can have. */
export function createServiceTokenForm(secrets: ServiceSecrets): KeyForm {
  return createKeyForm(serviceTokenPrefix, secrets, "keyrun-service-token-id:");
}

/** Whether the text begins as the tokens that `service-tokens create` makes. */
export function isNamedToken(text: string): boolean {
  return text.startsWith(`${serviceTokenPrefix}_`);
}

/**
 * Makes the verifier. The token of the settings costs what `isLocal` costs. A cached token costs
 * one HMAC and no read of the store, or one hash where it was proven before. What its form rules
 * out costs neither. All refusals but a proven revocation look the same and take the same time, so
 * that nobody learns which ids exist. `onUse` is called with the id of an accepted token.
 */
export function createVerifyServiceToken(parts: {
  readonly isLocal: (presented: string) => boolean;
  readonly form: KeyForm;
  readonly secrets: ServiceSecrets;
  readonly evidence: RecordSource<ServiceTokenEvidence>;
  readonly onUse: (tokenId: string) => void;
}): VerifyServiceToken {
  const { isLocal, form, secrets, evidence, onUse } = parts;
  const proven = createVerifiedValues(secrets);

  function verdictFor(value: string, found: ServiceTokenEvidence | undefined): ServiceTokenVerdict {
    if (!proven.has(found, value) || !found) {
      if (!matchesDigest(secrets, value, found) || !found) return invalid;
      proven.add(found, value);
    }
    if (found.revokeTimeMs !== null) return revoked;
    onUse(found.service.id);
    return { kind: "named", service: found.service };
  }

  return (presented) => {
    if (!isNamedToken(presented)) return isLocal(presented) ? local : invalid;
    const tokenId = form.idIn(presented);
    if (tokenId === undefined) return invalid;
    const cached = evidence.peek(tokenId);
    if (cached) return verdictFor(presented, cached);
    if (cached === null || !form.isWellFormed(presented)) return invalid;
    return evidence.load(tokenId).then((found) => verdictFor(presented, found));
  };
}

const local: ServiceTokenVerdict = Object.freeze({ kind: "local" });
const revoked: ServiceTokenVerdict = Object.freeze({ kind: "revoked" });
const invalid: ServiceTokenVerdict = Object.freeze({ kind: "invalid" });
