import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import type { Duration, FieldMask, Timestamp } from "@bufbuild/protobuf/wkt";
import type { ListKeysRequestSchema, ListKeysResponseSchema } from "#gen/keyrun/v1/key_service_pb.ts";
import type { GetSessionRequestSchema, GetSessionResponseSchema } from "#gen/keyrun/v1/session_service_pb.ts";
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
 * The RPCs that the first view calls. `late-rpcs.ts` has the others. A test proves for each that
 * it exists, and that its answers are read as the generated code reads them.
 */
export const rpcs = {
  getSession: rpc<typeof GetSessionRequestSchema, typeof GetSessionResponseSchema>(
    "/keyrun.v1.SessionService/GetSession",
    messages.getSessionResponse,
  ),
  listKeys: rpc<typeof ListKeysRequestSchema, typeof ListKeysResponseSchema>(
    "/keyrun.v1.KeyService/ListKeys",
    messages.listKeysResponse,
  ),
  getRateLimit: rpc<typeof GetRateLimitRequestSchema, typeof GetRateLimitResponseSchema>(
    "/keyrun.v1.TeamService/GetRateLimit",
    messages.getRateLimitResponse,
  ),
} as const;

/** The fields of a request in the JSON form of protobuf. None is required there. */
type Input<Schema extends DescMessage> = {
  [Field in Exclude<keyof MessageShape<Schema>, "$typeName" | "$unknown">]?: Json<
    MessageShape<Schema>[Field]
  >;
};
type Json<Value> = Value extends Timestamp | Duration | FieldMask ? string : Value;

export function rpc<I extends DescMessage, O extends DescMessage>(
  path: string,
  read: Reader<MessageShape<O>>,
): Rpc<Input<I>, MessageShape<O>> {
  return { path, read };
}
