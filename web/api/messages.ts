import type { RunnableAppJson } from "#gen/keyrun/v1/app_service_pb.ts";
import type { AuditEventJson } from "#gen/keyrun/v1/audit_event_pb.ts";
import type { ListEventsResponseJson } from "#gen/keyrun/v1/audit_service_pb.ts";
import type { KeyJson } from "#gen/keyrun/v1/key_pb.ts";
import type {
  KeyUsageJson,
  ListKeysResponseJson,
  UsagePointJson,
  WatchKeysResponseJson,
} from "#gen/keyrun/v1/key_service_pb.ts";
import type { QuotaJson } from "#gen/keyrun/v1/quota_pb.ts";
import type { RateLimitJson } from "#gen/keyrun/v1/rate_limit_pb.ts";
import type { GetSessionResponseJson } from "#gen/keyrun/v1/session_service_pb.ts";
import type { TeamJson } from "#gen/keyrun/v1/team_pb.ts";
import type { GetRateLimitResponseJson } from "#gen/keyrun/v1/team_service_pb.ts";

/**
 * A message of an answer: the JSON form of protobuf. A field that has its default is absent there,
 * such as an empty label, a zero or a false, so ask for `!key.label` and not for "". An id is never
 * empty, so it is always there.
 */
export type Sent<Message> = Message extends (infer Item)[]
  ? Sent<Item>[]
  : Message extends object
    ? { [Field in keyof Message]: Sent<Message[Field]> } & {
        [Field in keyof Message & ("id" | "teamId")]-?: string;
      }
    : Message;

export type AuditEvent = Sent<AuditEventJson>;
export type GetRateLimitResponse = Sent<GetRateLimitResponseJson>;
export type GetSessionResponse = Sent<GetSessionResponseJson>;
export type Key = Sent<KeyJson>;
export type KeyUsage = Sent<KeyUsageJson>;
export type ListEventsResponse = Sent<ListEventsResponseJson>;
export type ListKeysResponse = Sent<ListKeysResponseJson>;
export type Quota = Sent<QuotaJson>;
export type RateLimit = Sent<RateLimitJson>;
export type RunnableApp = Sent<RunnableAppJson>;
export type Team = Sent<TeamJson>;
export type UsagePoint = Sent<UsagePointJson>;
export type WatchKeysResponse = Sent<WatchKeysResponseJson>;
