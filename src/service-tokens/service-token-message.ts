import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { ServiceRole as RoleNumber, type ServiceTokenSchema } from "#gen/keyrun/v1/service_token_pb.ts";
import type { ServiceRole } from "../auth/require-service.ts";
import type { ServiceTokenRecord } from "./service-token-store.ts";

type ServiceTokenMessage = MessageInitShape<typeof ServiceTokenSchema>;

/**
 * A stored token as callers see it: without the digest or anything that helps to guess the value.
 */
export function serviceTokenMessage(token: ServiceTokenRecord): ServiceTokenMessage {
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

/** The name and the id of the token of the settings. No other token can have either. */
export const localName = "local";

/** The token of the settings, of which nothing is stored. */
export const localMessage: ServiceTokenMessage = {
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
export function roleOfNumber(number: RoleNumber): ServiceRole | undefined {
  return rolesByNumber.get(number);
}

const rolesByNumber = new Map(
  Object.entries(roleNumbers).map(([role, number]) => [number, role as ServiceRole]),
);
