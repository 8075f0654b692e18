import { noteSubject } from "../audit/pending-change.ts";
import { actorOf, type Principal } from "../auth/principal.ts";
import { requireTeamOfService, revokedToken, type ServiceRole } from "../auth/require-service.ts";
import type { Clock } from "../base/clock.ts";
import type { RandomBytes } from "../base/ids.ts";
import type { RecordSource } from "../cache/record-source.ts";
import type { ChangeSecurityState, FlooredChange } from "../fleet/security-state.ts";
import { isKeyId, type KeyForm } from "../keys/key-value.ts";
import type { ServiceSecrets } from "../keys/service-secrets.ts";
import { serviceTokenPrefix } from "../log/redaction.ts";
import { fail } from "../refusal/refusal.ts";
import { whileTeamsStay } from "../teams/find-team.ts";
import type { TeamRecord } from "../teams/team-store.ts";
import { serviceTokenBounds } from "./service-token-bounds.ts";
import type { InsertServiceTokenOutcome, ServiceTokenRecord, ServiceTokenStore } from "./service-token-store.ts";
import { evidenceOf, type ServiceTokenEvidence } from "./verify-service-token.ts";

/** What a new token is for. */
export interface ServiceTokenOrder {
  readonly name: string;
  readonly role: ServiceRole;
  readonly teamIds: readonly string[];
  readonly by: Principal;
}

/** The use cases of the tokens of internal services. */
export interface ServiceTokens {
  /** Creates a token. `value` is the only copy of the full value that there will ever be. */
  create(order: ServiceTokenOrder): Promise<{ readonly token: ServiceTokenRecord; readonly value: string }>;
  /** As `ServiceTokenStore.list`, with the last uses that are not written yet. */
  readonly list: ServiceTokenStore["list"];
  /**
   * Revokes for ever. Once it resolves, no request that is sent later is accepted. Revoking again
   * is no error.
   */
  revoke(order: { tokenId: string; by: Principal }): Promise<ServiceTokenRecord>;
  /**
   * Takes a team that is deleted from the tokens that name it: a new team may get its id. Calls
   * `before` right before the write, and ends with what it throws.
   */
  leaveTeam(teamId: string, before: () => void): Promise<void>;
  /** Checks a service whose call was admitted and still runs. Others always pass. */
  check(principal: Principal, teamId: string): Promise<void>;
}

export interface ServiceTokensParts {
  readonly clock: Clock;
  readonly store: ServiceTokenStore;
  readonly teams: RecordSource<TeamRecord>;
  readonly evidence: RecordSource<ServiceTokenEvidence>;
  readonly form: KeyForm;
  readonly secrets: ServiceSecrets;
  readonly randomBytes: RandomBytes;
  /** The stored last use or the one still held in memory, whichever is later. */
  readonly lastUseTimeMs: (tokenId: string, stored: number | null) => number | null;
  readonly changeSecurityState: ChangeSecurityState<"service-token", FlooredChange<ServiceTokenEvidence>>;
}

/**
 * Throws the refusals SERVICE_TOKEN_EXISTS, SERVICE_TOKEN_LIMIT_REACHED, SERVICE_TOKEN_NOT_FOUND,
 * TEAM_NOT_FOUND and TEAM_ENDING, and those of the store.
 */
export function createServiceTokens(parts: ServiceTokensParts): ServiceTokens {
  const { clock, store, teams, evidence, lastUseTimeMs, changeSecurityState } = parts;
  const withLastUse = (token: ServiceTokenRecord) => ({
    ...token,
    lastUseTimeMs: lastUseTimeMs(token.id, token.lastUseTimeMs),
  });

  /** Tells the other instances too: they may hold that the id does not exist. */
  async function insert(token: ServiceTokenRecord): Promise<InsertServiceTokenOutcome> {
    let outcome: InsertServiceTokenOutcome = { kind: "inserted" };
    await changeSecurityState("service-token", async () => {
      outcome = await store.insert(token, { acceptedMax: serviceTokenBounds.acceptedMax });
      return outcome.kind === "inserted" ? { id: token.id, version: token.version, grants: true } : undefined;
    });
    return outcome;
  }
  /** Nobody has its value yet, so no instance can have accepted it. */
  const remove = ({ id }: ServiceTokenRecord) =>
    changeSecurityState("service-token", async () => {
      await store.delete(id);
      return { id, version: deletedTokenVersion, grants: true };
    });

  return {
    async create(order) {
      const { token, value } = mintToken(parts, order);
      noteSubject({ target: token.id });
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
    async list(query) {
      return (await store.list(query)).map(withLastUse);
    },
    async revoke({ tokenId, by }) {
      const revokedBy = actorOf(by);
      // Also for a token that is revoked already: each answer promises that no later request is
      // accepted.
      const change = await changeSecurityState("service-token", async () => {
        const token = await store.revoke({ tokenId, revokeTimeMs: clock.unixMs(), revokedBy });
        return token && { id: token.id, version: token.version, value: evidenceOf(token), token };
      });
      if (!change) {
        // Only what has the form of an id is repeated: people do send a whole token in its place.
        const metadata = isKeyId(tokenId) ? { service_token_id: tokenId } : {};
        throw fail("SERVICE_TOKEN_NOT_FOUND", { param: "service_token_id", metadata });
      }
      return withLastUse(change.token);
    },
    async leaveTeam(teamId, before) {
      await changeSecurityState("service-token", async () => {
        before();
        const left = await store.leaveTeam(teamId);
        return left.map((token) => ({ id: token.id, version: token.version, value: evidenceOf(token) }));
      });
    },
    async check(principal, teamId) {
      if (principal.kind !== "service" || principal.service === undefined) return;
      const { id } = principal.service;
      const found = evidence.peek(id) ?? (await evidence.load(id));
      if (!found || found.revokeTimeMs !== null) throw revokedToken();
      requireTeamOfService(found.service, teamId);
    },
  };
}

/** Above every version of a stored token: it grows by one for each team, and for a revocation. */
const deletedTokenVersion = serviceTokenBounds.teamsMax + 3;

/** Characters of the id that the redacted value shows. */
const redactedIdCharacters = 4;

function mintToken({ clock, form, secrets, randomBytes }: ServiceTokensParts, order: ServiceTokenOrder) {
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
    createdBy: actorOf(order.by),
    lastUseTimeMs: null,
    revokeTimeMs: null,
    revokedBy: null,
    version: 1,
  };
  return { token, value };
}
