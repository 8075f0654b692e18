import type {
  ListRunnableAppsRequestSchema,
  ListRunnableAppsResponseSchema,
} from "#gen/keyrun/v1/app_service_pb.ts";
import type { ListEventsRequestSchema, ListEventsResponseSchema } from "#gen/keyrun/v1/audit_service_pb.ts";
import type {
  CreateKeyRequestSchema,
  CreateKeyResponseSchema,
  GetUsageRequestSchema,
  GetUsageResponseSchema,
  RevokeKeyRequestSchema,
  RevokeKeyResponseSchema,
  RotateKeyRequestSchema,
  RotateKeyResponseSchema,
  UpdateKeyRequestSchema,
  UpdateKeyResponseSchema,
  WatchKeysRequestSchema,
  WatchKeysResponseSchema,
} from "#gen/keyrun/v1/key_service_pb.ts";
import type { SignOutRequestSchema, SignOutResponseSchema } from "#gen/keyrun/v1/session_service_pb.ts";
import * as messages from "./late-messages.ts";
import { rpc } from "./rpcs.ts";

/** The RPCs that only the lazy parts call. */
export const lateRpcs = {
  signOut: rpc<typeof SignOutRequestSchema, typeof SignOutResponseSchema>(
    "/keyrun.v1.SessionService/SignOut",
    messages.signOutResponse,
  ),
  createKey: rpc<typeof CreateKeyRequestSchema, typeof CreateKeyResponseSchema>(
    "/keyrun.v1.KeyService/CreateKey",
    messages.createKeyResponse,
  ),
  revokeKey: rpc<typeof RevokeKeyRequestSchema, typeof RevokeKeyResponseSchema>(
    "/keyrun.v1.KeyService/RevokeKey",
    messages.revokeKeyResponse,
  ),
  updateKey: rpc<typeof UpdateKeyRequestSchema, typeof UpdateKeyResponseSchema>(
    "/keyrun.v1.KeyService/UpdateKey",
    messages.updateKeyResponse,
  ),
  rotateKey: rpc<typeof RotateKeyRequestSchema, typeof RotateKeyResponseSchema>(
    "/keyrun.v1.KeyService/RotateKey",
    messages.rotateKeyResponse,
  ),
  watchKeys: rpc<typeof WatchKeysRequestSchema, typeof WatchKeysResponseSchema>(
    "/keyrun.v1.KeyService/WatchKeys",
    messages.watchKeysResponse,
  ),
  getUsage: rpc<typeof GetUsageRequestSchema, typeof GetUsageResponseSchema>(
    "/keyrun.v1.KeyService/GetUsage",
    messages.getUsageResponse,
  ),
  listRunnableApps: rpc<typeof ListRunnableAppsRequestSchema, typeof ListRunnableAppsResponseSchema>(
    "/keyrun.v1.AppService/ListRunnableApps",
    messages.listRunnableAppsResponse,
  ),
  listEvents: rpc<typeof ListEventsRequestSchema, typeof ListEventsResponseSchema>(
    "/keyrun.v1.AuditService/ListEvents",
    messages.listEventsResponse,
  ),
} as const;
