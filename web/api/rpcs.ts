import type { DescMessage, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import type {
  ListRunnableAppsRequestSchema,
  ListRunnableAppsResponseSchema,
} from "#gen/keyrun/v1/app_service_pb.ts";
import type {
  CreateKeyRequestSchema,
  CreateKeyResponseSchema,
  ListKeysRequestSchema,
  ListKeysResponseSchema,
  RevokeKeyRequestSchema,
  RevokeKeyResponseSchema,
  WatchKeysRequestSchema,
  WatchKeysResponseSchema,
} from "#gen/keyrun/v1/key_service_pb.ts";
import type {
  GetSessionRequestSchema,
  GetSessionResponseSchema,
  SignOutRequestSchema,
  SignOutResponseSchema,
} from "#gen/keyrun/v1/session_service_pb.ts";
import type {
  GetRateLimitRequestSchema,
  GetRateLimitResponseSchema,
} from "#gen/keyrun/v1/team_service_pb.ts";
import type { Reader } from "./json-readers.ts";
import * as messages from "./messages.ts";

/** An RPC: its path, and how to read its answer, or each answer of its stream. */
export interface Rpc<Input, Output> {
  readonly path: string;
  readonly read: Reader<Output>;
  /** Exists in the types alone, so that a call takes only the fields of its request. */
  readonly input?: Input;
}

/**
 * The RPCs that the screen calls. A test proves for each that it exists, and that its answers are
 * read as the generated code reads them.
 */
export const rpcs = {
  getSession: rpc<typeof GetSessionRequestSchema, typeof GetSessionResponseSchema>(
    "/keyrun.v1.SessionService/GetSession",
    messages.getSessionResponse,
  ),
  signOut: rpc<typeof SignOutRequestSchema, typeof SignOutResponseSchema>(
    "/keyrun.v1.SessionService/SignOut",
    messages.signOutResponse,
  ),
  createKey: rpc<typeof CreateKeyRequestSchema, typeof CreateKeyResponseSchema>(
    "/keyrun.v1.KeyService/CreateKey",
    messages.createKeyResponse,
  ),
  listKeys: rpc<typeof ListKeysRequestSchema, typeof ListKeysResponseSchema>(
    "/keyrun.v1.KeyService/ListKeys",
    messages.listKeysResponse,
  ),
  watchKeys: rpc<typeof WatchKeysRequestSchema, typeof WatchKeysResponseSchema>(
    "/keyrun.v1.KeyService/WatchKeys",
    messages.watchKeysResponse,
  ),
  revokeKey: rpc<typeof RevokeKeyRequestSchema, typeof RevokeKeyResponseSchema>(
    "/keyrun.v1.KeyService/RevokeKey",
    messages.revokeKeyResponse,
  ),
  getRateLimit: rpc<typeof GetRateLimitRequestSchema, typeof GetRateLimitResponseSchema>(
    "/keyrun.v1.TeamService/GetRateLimit",
    messages.getRateLimitResponse,
  ),
  listRunnableApps: rpc<typeof ListRunnableAppsRequestSchema, typeof ListRunnableAppsResponseSchema>(
    "/keyrun.v1.AppService/ListRunnableApps",
    messages.listRunnableAppsResponse,
  ),
} as const;

type Input<Schema extends DescMessage> = Omit<MessageInitShape<Schema>, "$typeName" | "$unknown">;

function rpc<I extends DescMessage, O extends DescMessage>(
  path: string,
  read: Reader<MessageShape<O>>,
): Rpc<Input<I>, MessageShape<O>> {
  return { path, read };
}
