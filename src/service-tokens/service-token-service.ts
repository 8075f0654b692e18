import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { ServiceRole as RoleNumber, type ServiceTokenSchema } from "#gen/keyrun/v1/service_token_pb.ts";
import type {
  CreateServiceTokenRequest,
  ServiceTokenService,
} from "#gen/keyrun/v1/service_token_service_pb.ts";
import type { ServiceMethods } from "../auth/principal.ts";
import type { ServiceRole } from "../auth/require-service.ts";
import { readResourceId } from "../base/fields.ts";
import { cutPage, type Page, readPage, readPlace, writePlace } from "../base/page.ts";
import type { Log } from "../log/log.ts";
import { fail } from "../refusal/refusal.ts";
import {
  type ServiceTokenCursor,
  type ServiceTokenRecord,
  serviceTokenBounds,
} from "./service-token-store.ts";
import type { ServiceTokenOrder, ServiceTokens } from "./service-tokens.ts";

/** `keyrun.v1.ServiceTokenService`: the tokens of internal services. */
export function createServiceTokenService({
  tokens,
  log,
}: {
  readonly tokens: ServiceTokens;
  readonly log: Log;
}): ServiceMethods<typeof ServiceTokenService> {
  return {
    async createServiceToken(request, call) {
      const { token, value } = await tokens.create(readOrder(request), call);
      return { serviceToken: serviceTokenMessage(token), value };
    },
    async listServiceTokens({ showRevoked, ...request }) {
      const scope = `service-tokens:${showRevoked}`;
      const page = readPage(request, scope);
      const found = await tokens.list({ ...queryOf(page), includeRevoked: showRevoked });
      // The token of the settings is like one more record after the last.
      const isEnd = found.length <= page.limit;
      const { items, nextPageToken } = cutPage(isEnd ? [...found, local] : found, page, scope, positionOf);
      return {
        serviceTokens: items.map((item) => (item === local ? localMessage : serviceTokenMessage(item))),
        nextPageToken,
      };
    },
    async revokeServiceToken({ serviceTokenId: tokenId }, { principal: by }) {
      const param = "service_token_id";
      if (tokenId === "") throw fail("INVALID_ARGUMENT", { param, problem: `${param} is required.` });
      if (tokenId === localName) throw fail("SERVICE_TOKEN_OF_SETTINGS");
      const token = await tokens.revoke({ tokenId, by });
      // A backup that is restored does not know it: this line does.
      log.info({ serviceTokenId: token.id, name: token.name }, "a service token was revoked");
      return { serviceToken: serviceTokenMessage(token) };
    },
  };
}

/** The name and the id of the token of the settings. No other token can have either. */
const localName = "local";

function readOrder({ name, role: number, teamIds }: CreateServiceTokenRequest): ServiceTokenOrder {
  readResourceId(name, "name");
  if (name === localName) {
    throw fail("INVALID_ARGUMENT", {
      param: "name",
      problem: `name must not be "${localName}": that is the token of the settings.`,
    });
  }
  if (keyrunsOwnNames.includes(name)) {
    const problem = `name must not be "${name}": records name Keyrun itself or nobody so.`;
    throw fail("INVALID_ARGUMENT", { param: "name", problem });
  }
  const role = roleOfNumber(number);
  if (role === undefined) {
    const problem = "role must be VERIFY, MANAGE, METRICS or ADMIN.";
    throw fail("INVALID_ARGUMENT", { param: "role", problem });
  }
  if (role === "manage" && teamIds.length === 0) {
    const problem = "team_ids is required for the role MANAGE: name the teams that the service may manage.";
    throw fail("INVALID_ARGUMENT", { param: "team_ids", problem });
  }
  if (role !== "manage" && teamIds.length > 0) {
    const problem = "team_ids is for the role MANAGE alone: every other role is for no team or for all.";
    throw fail("INVALID_ARGUMENT", { param: "team_ids", problem });
  }
  if (teamIds.length > serviceTokenBounds.teamsMax) {
    const problem = `team_ids must have at most ${serviceTokenBounds.teamsMax} teams.`;
    throw fail("INVALID_ARGUMENT", { param: "team_ids", problem });
  }
  for (const [index, teamId] of teamIds.entries()) readResourceId(teamId, `team_ids[${index}]`);
  return { name, role, teamIds: [...new Set(teamIds)].sort() };
}

/** The actors of records who are no service, as far as a service could be named like them. */
const keyrunsOwnNames: readonly string[] = ["unknown", "keyrun"];

/** Stands in a list of records for the token of the settings. */
const local = Symbol(localName);

type Listed = ServiceTokenRecord | typeof local;

function queryOf({ limit, after }: Page): { limit: number; after?: ServiceTokenCursor } {
  if (after === undefined) return { limit: limit + 1 };
  const { timeMs, id } = readPlace(after);
  return { limit: limit + 1, after: { createTimeMs: timeMs, id } };
}

function positionOf(last: Listed): string {
  if (last === local) throw new Error("nothing comes after the token of the settings");
  return writePlace({ timeMs: last.createTimeMs, id: last.id });
}

type ServiceTokenMessage = MessageInitShape<typeof ServiceTokenSchema>;

/**
 * A stored token as callers see it: without the digest or anything that helps to guess the value.
 */
function serviceTokenMessage(token: ServiceTokenRecord): ServiceTokenMessage {
  return {
    id: token.id,
    name: token.name,
    role: roleNumbers[token.role],
    teamIds: [...token.teamIds],
    redactedValue: token.redactedValue,
    createTime: timestampFromMs(token.createTimeMs),
    createdBy: token.createdBy,
    ...(token.lastUseTimeMs !== null && { lastUseTime: timestampFromMs(token.lastUseTimeMs) }),
    ...(token.revokeTimeMs !== null && { revokeTime: timestampFromMs(token.revokeTimeMs) }),
    revokedBy: token.revokedBy ?? "",
  };
}

/** The token of the settings, of which nothing is stored. */
const localMessage: ServiceTokenMessage = {
  id: localName,
  name: localName,
  role: RoleNumber.ADMIN,
};

const roleNumbers: Readonly<Record<ServiceRole, RoleNumber>> = {
  verify: RoleNumber.VERIFY,
  manage: RoleNumber.MANAGE,
  metrics: RoleNumber.METRICS,
  admin: RoleNumber.ADMIN,
};

/** The role of the number; undefined if there is none. */
function roleOfNumber(number: RoleNumber): ServiceRole | undefined {
  return rolesByNumber.get(number);
}

const rolesByNumber = new Map(
  Object.entries(roleNumbers).map(([role, number]) => [number, role as ServiceRole]),
);
