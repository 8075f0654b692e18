import type { Clock } from "../base/clock.ts";
import { auditBounds } from "./audit-bounds.ts";
import type { AuditEvent } from "./audit-store.ts";
import type { ChangeFacts } from "./pending-change.ts";

/** An attempt that shares its event with others like it. */
export type JoinedAttempt = Pick<ChangeFacts, "actor" | "address" | "channel" | "action"> &
  Pick<AuditEvent, "outcome" | "reason">;

/** Attempts that anybody can make, and as many as they like. */
export interface JoinedAttempts {
  add(attempt: JoinedAttempt): void;
  /** Emits the events whose minute is over; with `all`, also those of this minute. */
  flush(options?: { readonly all: boolean }): void;
}

const minuteMs = 60_000;
const hourMs = 3_600_000;

/**
 * Joins the attempts of one actor, address, action and reason in one minute into one event with a
 * count. There are at most `joinedEventsPerHourMax` such events an hour: the last one, with the
 * action "attempts.more", counts all that would need another. So memory is bounded, too.
 */
export function createJoinedAttempts({
  clock,
  emit,
  eventsPerHourMax = auditBounds.joinedEventsPerHourMax,
}: {
  readonly clock: Pick<Clock, "unixMs">;
  readonly emit: (event: ChangeFacts & Pick<AuditEvent, "timeMs" | "outcome" | "reason" | "count">) => void;
  readonly eventsPerHourMax?: number;
}): JoinedAttempts {
  const joined = new Map<string, { attempt: JoinedAttempt; timeMs: number; count: number }>();
  let minute = 0;
  let hour = 0;
  let eventsOfHour = 0;
  let more = { count: 0, timeMs: 0 };

  function emitJoined(): void {
    for (const { attempt, timeMs, count } of joined.values()) {
      emit({ ...attempt, timeMs, count, teamId: "", target: "", detail: "", requestId: "" });
    }
    joined.clear();
  }

  function emitMore(): void {
    if (more.count > 0) emit({ ...beyond, ...more });
    more = { count: 0, timeMs: 0 };
  }

  /** A clock that was set back begins a new minute, too. */
  function turn(nowMs: number): void {
    if (Math.floor(nowMs / minuteMs) === minute) return;
    minute = Math.floor(nowMs / minuteMs);
    emitJoined();
    if (Math.floor(nowMs / hourMs) === hour) return;
    hour = Math.floor(nowMs / hourMs);
    emitMore();
    eventsOfHour = 0;
  }

  return {
    add(attempt) {
      const nowMs = clock.unixMs();
      turn(nowMs);
      const { actor, address, channel, action, outcome, reason } = attempt;
      const name = JSON.stringify([actor, address, channel, action, outcome, reason]);
      const known = joined.get(name);
      if (known) {
        known.count = Math.min(known.count + 1, auditBounds.countMax);
      } else if (eventsOfHour < eventsPerHourMax - 1) {
        eventsOfHour++;
        joined.set(name, { attempt, timeMs: nowMs, count: 1 });
      } else {
        const { count, timeMs } = more;
        more = { count: Math.min(count + 1, auditBounds.countMax), timeMs: count === 0 ? nowMs : timeMs };
      }
    },
    flush({ all = false } = { all: false }) {
      turn(clock.unixMs());
      if (!all) return;
      emitJoined();
      emitMore();
    },
  };
}

const beyond = {
  actor: "unknown",
  address: "",
  channel: "none",
  action: "attempts.more",
  teamId: "",
  target: "",
  detail: "",
  requestId: "",
  outcome: "refused",
  reason: "",
} as const;
