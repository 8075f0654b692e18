import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { AuditChannel, type AuditEventSchema, AuditOutcome } from "#gen/keyrun/v1/audit_event_pb.ts";
import type { AuditEvent } from "./audit-store.ts";

const channels = {
  none: AuditChannel.UNSPECIFIED,
  screen: AuditChannel.SCREEN,
  command_line: AuditChannel.COMMAND_LINE,
  rpc: AuditChannel.RPC,
} as const;

const outcomes = {
  done: AuditOutcome.DONE,
  refused: AuditOutcome.REFUSED,
  unknown: AuditOutcome.UNKNOWN,
} as const;

/** The event as callers see it. */
export function auditMessage(event: AuditEvent): MessageInitShape<typeof AuditEventSchema> {
  const { timeMs, channel, outcome, ...same } = event;
  return { ...same, time: timestampFromMs(timeMs), channel: channels[channel], outcome: outcomes[outcome] };
}
