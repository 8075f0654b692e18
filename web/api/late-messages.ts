import type { ListRunnableAppsResponse, RunnableApp } from "#gen/keyrun/v1/app_service_pb.ts";
import { AuditChannel, type AuditEvent, AuditOutcome } from "#gen/keyrun/v1/audit_event_pb.ts";
import type { ListEventsResponse } from "#gen/keyrun/v1/audit_service_pb.ts";
import type {
  CreateKeyResponse,
  GetUsageResponse,
  KeyUsage,
  RevokeKeyResponse,
  RotateKeyResponse,
  UpdateKeyResponse,
  UsagePoint,
  WatchHeartbeat,
  WatchKeysResponse,
  WatchOpened,
} from "#gen/keyrun/v1/key_service_pb.ts";
import type { SignOutResponse } from "#gen/keyrun/v1/session_service_pb.ts";
import {
  enumeration,
  fieldOf,
  int32,
  int64,
  list,
  message,
  optional,
  type Reader,
  text,
  timestamp,
} from "./json-readers.ts";
import { duration, key } from "./messages.ts";

// The messages that the first view of a team's keys doesn't need.

export const signOutResponse = message<SignOutResponse>("keyrun.v1.SignOutResponse", {});

export const createKeyResponse = message<CreateKeyResponse>("keyrun.v1.CreateKeyResponse", {
  key: optional(key),
  value: text,
});

export const revokeKeyResponse = message<RevokeKeyResponse>("keyrun.v1.RevokeKeyResponse", {
  key: optional(key),
});

const watchOpened = message<WatchOpened>("keyrun.v1.WatchOpened", {});
const watchHeartbeat = message<WatchHeartbeat>("keyrun.v1.WatchHeartbeat", {});

/** The event is absent if it is one that this page does not know yet. */
export const watchKeysResponse: Reader<WatchKeysResponse> = (json) => {
  const read = <T>(name: string, reader: Reader<T>) => optional(reader)(fieldOf(json, name));
  const created = read("created", key);
  const revoked = read("revoked", key);
  const opened = read("opened", watchOpened);
  const heartbeat = read("heartbeat", watchHeartbeat);
  const used = read("used", key);
  const changed = read("changed", key);
  return { $typeName: "keyrun.v1.WatchKeysResponse", event: event() };

  function event(): WatchKeysResponse["event"] {
    if (created) return { case: "created", value: created };
    if (revoked) return { case: "revoked", value: revoked };
    if (used) return { case: "used", value: used };
    if (changed) return { case: "changed", value: changed };
    if (opened) return { case: "opened", value: opened };
    return heartbeat ? { case: "heartbeat", value: heartbeat } : { case: undefined };
  }
};

export const updateKeyResponse = message<UpdateKeyResponse>("keyrun.v1.UpdateKeyResponse", {
  key: optional(key),
});

export const rotateKeyResponse = message<RotateKeyResponse>("keyrun.v1.RotateKeyResponse", {
  key: optional(key),
  value: text,
  replacedKey: optional(key),
});

const usagePoint = message<UsagePoint>("keyrun.v1.UsagePoint", {
  startTime: optional(timestamp),
  acceptedCount: int64,
  limitedCount: int64,
  failedCount: int64,
  appDuration: optional(duration),
});

const keyUsage = message<KeyUsage>("keyrun.v1.KeyUsage", {
  keyId: text,
  acceptedCounts: list(int64),
  limitedCounts: list(int64),
  failedCounts: list(int64),
});

export const getUsageResponse = message<GetUsageResponse>("keyrun.v1.GetUsageResponse", {
  points: list(usagePoint),
  keys: list(keyUsage),
});

const auditEvent = message<AuditEvent>("keyrun.v1.AuditEvent", {
  id: text,
  time: optional(timestamp),
  actor: text,
  address: text,
  channel: enumeration(AuditChannel, "AUDIT_CHANNEL_"),
  action: text,
  teamId: text,
  target: text,
  requestId: text,
  outcome: enumeration(AuditOutcome, "AUDIT_OUTCOME_"),
  reason: text,
  count: int32,
  detail: text,
});

export const listEventsResponse = message<ListEventsResponse>("keyrun.v1.ListEventsResponse", {
  events: list(auditEvent),
  nextPageToken: text,
});

const runnableApp = message<RunnableApp>("keyrun.v1.RunnableApp", { id: text, displayName: text });

export const listRunnableAppsResponse = message<ListRunnableAppsResponse>(
  "keyrun.v1.ListRunnableAppsResponse",
  { apps: list(runnableApp), nextPageToken: text },
);
