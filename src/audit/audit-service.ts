import { createHash } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { AuditChannel, type AuditEventSchema, AuditOutcome } from "#gen/keyrun/v1/audit_event_pb.ts";
import type { AuditService, ListEventsRequest } from "#gen/keyrun/v1/audit_service_pb.ts";
import type { Principal, ServiceMethods } from "../auth/principal.ts";
import { withoutSecret } from "../base/fields.ts";
import { cutPage, readPage, readPlace, writePlace } from "../base/page.ts";
import { fail } from "../refusal/refusal.ts";
import type { AuditLog } from "./audit-log.ts";
import { type AuditEvent, type AuditQuery, type AuditStore, auditBounds } from "./audit-store.ts";

/**
 * `keyrun.v1.AuditService`. An admin may list the events of a deleted team, so nothing asks whether
 * the team is there. That other callers name a team of their own is checked before. They see its
 * events alone, and not those of an earlier team with the same id.
 */
export function createAuditService({
  store,
  log,
  teamCreateTimeMs,
}: {
  readonly store: Pick<AuditStore, "list">;
  readonly log: Pick<AuditLog, "flush">;
  /** When the team was created; undefined where there is none. */
  readonly teamCreateTimeMs: (teamId: string) => Promise<number | undefined>;
}): ServiceMethods<typeof AuditService> {
  /** The time of the first event that is about the team as it is now. */
  async function startOf(teamId: string): Promise<number> {
    const createTimeMs = (await teamCreateTimeMs(teamId)) ?? Number.MAX_SAFE_INTEGER;
    // The event has the time at which the creation began.
    const span = { fromMs: createTimeMs - auditBounds.creationMsMax, beforeMs: createTimeMs + 1 };
    const [created] = await store.list({ teamId, action: "team.create", ...span, limit: 1 });
    return created && created.outcome !== "refused" ? created.timeMs : createTimeMs;
  }

  return {
    async listEvents(request, { principal }) {
      const filter = filterOf(request);
      const scope = scopeOf(filter);
      const page = readPage(request, scope);
      const after = page.after === undefined ? {} : { after: readPlace(page.after) };
      // Then a caller finds what it has done itself.
      await log.flush();
      const { teamId, fromMs = 0 } = filter;
      const isLimited = teamId !== undefined && !seesAll(principal);
      const seen = isLimited ? { ...filter, fromMs: Math.max(fromMs, await startOf(teamId)) } : filter;
      const found = await store.list({ ...seen, ...after, limit: page.limit + 1 });
      const { items, nextPageToken } = cutPage(found, page, scope, writePlace);
      return { events: items.map(auditMessage), nextPageToken };
    },
  };
}

/** Whether the caller is not limited to teams. */
function seesAll(principal: Principal): boolean {
  return principal.kind === "service" && principal.service?.role !== "manage";
}

type Filter = Omit<AuditQuery, "limit" | "after">;

function filterOf({ teamId, actor, action, targets, startTime, endTime }: ListEventsRequest): Filter {
  if (targets.length > auditBounds.targetsMax) {
    const problem = `targets must be at most ${auditBounds.targetsMax}.`;
    throw fail("INVALID_ARGUMENT", { param: "targets", problem });
  }
  for (const target of targets) withoutSecret(target, "targets");
  withoutSecret(actor, "actor");
  withoutSecret(action, "action");
  if (startTime && endTime && msOf(startTime) > msOf(endTime)) {
    const problem = "start_time must not be after end_time.";
    throw fail("INVALID_ARGUMENT", { param: "start_time", problem });
  }
  return {
    ...(teamId !== "" && { teamId }),
    ...(actor !== "" && { actor }),
    ...(action !== "" && { action }),
    ...(targets.length > 0 && { targets }),
    ...(startTime && { fromMs: msOf(startTime) }),
    ...(endTime && { beforeMs: msOf(endTime) }),
  };
}

/** The first whole millisecond at this time or later: events have whole ones. */
function msOf({ seconds, nanos }: Timestamp): number {
  return Number(seconds) * 1_000 + Math.ceil(nanos / 1_000_000);
}

/** A token is bound to the filters. It holds a digest, and so never their texts. */
function scopeOf({ teamId, actor, action, targets, fromMs, beforeMs }: Filter): string {
  const all = [teamId, actor, action, targets, fromMs, beforeMs];
  const meaning = JSON.stringify(all.map((each) => each ?? null));
  return `events:${createHash("sha256").update(meaning).digest("base64url").slice(0, 22)}`;
}

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
function auditMessage(event: AuditEvent): MessageInitShape<typeof AuditEventSchema> {
  const { timeMs, channel, outcome, ...same } = event;
  return { ...same, time: timestampFromMs(timeMs), channel: channels[channel], outcome: outcomes[outcome] };
}
