import type { DescMessage, MessageJsonType } from "@bufbuild/protobuf";
import type { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import type { AuditService } from "#gen/keyrun/v1/audit_service_pb.ts";
import type { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import type { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import type { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import type { Sent } from "./messages.ts";

/**
 * An RPC of Keyrun, by its path. Its types come from the generated code alone: the code itself
 * parses its descriptors at every start, which takes a phone longer than the rest of the page.
 */
export interface Rpc<Input, Output> {
  readonly path: string;
  /** These two exist in the types alone, so that a call takes and gives what the RPC does. */
  readonly input?: Input;
  readonly output?: Output;
}

/** Every RPC that the screen calls. */
export const rpcs = {
  getSession: rpc("/keyrun.v1.SessionService/GetSession"),
  signOut: rpc("/keyrun.v1.SessionService/SignOut"),
  listKeys: rpc("/keyrun.v1.KeyService/ListKeys"),
  createKey: rpc("/keyrun.v1.KeyService/CreateKey"),
  updateKey: rpc("/keyrun.v1.KeyService/UpdateKey"),
  rotateKey: rpc("/keyrun.v1.KeyService/RotateKey"),
  revokeKey: rpc("/keyrun.v1.KeyService/RevokeKey"),
  watchKeys: rpc("/keyrun.v1.KeyService/WatchKeys"),
  getUsage: rpc("/keyrun.v1.KeyService/GetUsage"),
  getRateLimit: rpc("/keyrun.v1.TeamService/GetRateLimit"),
  listRunnableApps: rpc("/keyrun.v1.AppService/ListRunnableApps"),
  listEvents: rpc("/keyrun.v1.AuditService/ListEvents"),
} as const;

/** A path of which the protos know nothing is an error of types. */
function rpc<Path extends string>(path: Path): RpcAt<Path> {
  const found: Rpc<unknown, unknown> = { path };
  return found as RpcAt<Path>;
}

interface Services {
  readonly AppService: typeof AppService;
  readonly AuditService: typeof AuditService;
  readonly KeyService: typeof KeyService;
  readonly SessionService: typeof SessionService;
  readonly TeamService: typeof TeamService;
}

type RpcAt<Path extends string> =
  Path extends `/keyrun.v1.${infer Name extends keyof Services}/${infer Method}`
    ? Services[Name]["method"] extends { [M in Uncapitalize<Method>]: { input: infer I; output: infer O } }
      ? Rpc<JsonOf<I>, Sent<JsonOf<O>>>
      : never
    : never;

type JsonOf<Schema> = Schema extends DescMessage ? MessageJsonType<Schema> : never;
