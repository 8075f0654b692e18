import type { Duration } from "@bufbuild/protobuf/wkt";
import { type Key, KeyState } from "#gen/keyrun/v1/key_pb.ts";
import type { ListKeysResponse } from "#gen/keyrun/v1/key_service_pb.ts";
import type { RateLimit } from "#gen/keyrun/v1/rate_limit_pb.ts";
import type { GetSessionResponse } from "#gen/keyrun/v1/session_service_pb.ts";
import { Plan, type Team, TeamState } from "#gen/keyrun/v1/team_pb.ts";
import type { GetRateLimitResponse } from "#gen/keyrun/v1/team_service_pb.ts";
import {
  enumeration,
  flag,
  int32,
  list,
  message,
  optional,
  type Reader,
  text,
  timestamp,
} from "./json-readers.ts";

// The types come from the protos. The generated code that could read JSON by itself parses its
// descriptors at every start, which takes a phone longer than the rest of the page.

const team = message<Team>("keyrun.v1.Team", {
  id: text,
  displayName: text,
  plan: enumeration(Plan, "PLAN_"),
  createTime: optional(timestamp),
  state: enumeration(TeamState, "TEAM_STATE_"),
});

export const getSessionResponse = message<GetSessionResponse>("keyrun.v1.GetSessionResponse", {
  email: text,
  previewAccess: flag,
  teams: list(team),
});

export const key = message<Key>("keyrun.v1.Key", {
  id: text,
  teamId: text,
  label: text,
  redactedValue: text,
  createTime: optional(timestamp),
  createdBy: text,
  lastUseTime: optional(timestamp),
  revokeTime: optional(timestamp),
  revokedBy: text,
  state: enumeration(KeyState, "KEY_STATE_"),
  requestId: text,
  expireTime: optional(timestamp),
  replacesKeyId: text,
  replacedByKeyId: text,
  appIds: list(text),
  requestsPerMinute: optional(int32),
});

export const listKeysResponse = message<ListKeysResponse>("keyrun.v1.ListKeysResponse", {
  keys: list(key),
  nextPageToken: text,
  activeKeyCount: int32,
  activeKeyCountMax: int32,
  revokedKeyCount: int32,
});

/** "12.5s" with up to nine digits of a second. */
export const duration: Reader<Duration> = (json) => {
  const [, sign = "", whole = "0", fraction = ""] = /^(-?)(\d+)(?:\.(\d+))?s$/.exec(text(json)) ?? [];
  return {
    $typeName: "google.protobuf.Duration",
    seconds: BigInt(sign + whole),
    // Not -0, which is another value.
    nanos: Number(sign + fraction.padEnd(9, "0")) || 0,
  };
};

const rateLimit = message<RateLimit>("keyrun.v1.RateLimit", {
  limit: int32,
  remaining: int32,
  resetTime: optional(timestamp),
  retryAfter: optional(duration),
});

export const getRateLimitResponse = message<GetRateLimitResponse>("keyrun.v1.GetRateLimitResponse", {
  rateLimit: optional(rateLimit),
});
