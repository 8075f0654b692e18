/**
 * The events that nobody waits for. They are written in batches while requests go on; attempts that
 * anybody can make are joined before, so that a flood of them costs neither memory nor the store.
 */

import { setImmediate } from "node:timers/promises";
import type { Clock } from "../base/clock.ts";
import { type AuditEvent, type AuditStore, auditBounds } from "./audit-store.ts";
import type { ChangeFacts } from "./pending-change.ts";

/** Writes events in batches, one after the other, and again if a write failed. */
export function createWaitingEvents(parts: {
  readonly store: Pick<AuditStore, "write">;
  /** Called when a write has failed. The events are kept for the next one. */
  readonly onWriteFailed: (cause: unknown) => void;
  /** Called with an event for which there is no room. */
  readonly onDropped: (event: AuditEvent) => void;
}) {
  const waiting = new Map<string, AuditEvent>();
  let writing: Promise<void> | undefined;
  let retry: NodeJS.Timeout | undefined;

  /** Ends with the last event or with the first failure. */
  async function writeAll(): Promise<void> {
    clearTimeout(retry);
    // After the answers that are ready, and then for all of them at once.
    await setImmediate();
    while (waiting.size > 0) {
      const batch = [...waiting.values()].slice(0, auditBounds.writtenAtOnceMax);
      try {
        await parts.store.write(batch);
      } catch (cause) {
        parts.onWriteFailed(cause);
        retry = setTimeout(write, auditBounds.retryMs).unref();
        return;
      }
      for (const event of batch) {
        // What has come meanwhile is newer.
        if (waiting.get(event.id) === event) waiting.delete(event.id);
      }
    }
  }

  function write(): Promise<void> {
    writing ??= writeAll().finally(() => {
      writing = undefined;
    });
    return writing;
  }

  /**
   * Resolves when what was added before is written, or an attempt has failed. A write that is under
   * way may have begun before the last event was added.
   */
  async function flush(): Promise<void> {
    if (writing) await writing;
    else if (waiting.size > 0) await write();
  }

  return {
    /** Takes the event, to be written soon. Of one id, the newest counts. */
    add(event: AuditEvent): void {
      if (waiting.size >= auditBounds.waitingEventsMax && !waiting.has(event.id)) {
        parts.onDropped(event);
        return;
      }
      waiting.set(event.id, event);
      void write();
    },
    flush,
    /** Writes what waits for the last time. */
    async close(): Promise<void> {
      await flush();
      clearTimeout(retry);
    },
  };
}

/** An attempt that shares its event with others like it. */
type JoinedAttempt = Pick<ChangeFacts, "actor" | "address" | "channel" | "action" | "detail"> &
  Pick<AuditEvent, "outcome" | "reason">;

const minuteMs = 60_000;
const hourMs = 3_600_000;

/**
 * Joins attempts that anybody can make, and as many as they like: those of one actor, address,
 * action, reason and detail in one minute become one event with a count. There are at most
 * `joinedEventsPerHourMax` such events an hour: the last one, with the action "attempts.more",
 * counts all that would need another. So memory is bounded, too.
 */
export function createJoinedAttempts({
  clock,
  emit,
  eventsPerHourMax = auditBounds.joinedEventsPerHourMax,
}: {
  readonly clock: Pick<Clock, "unixMs">;
  readonly emit: (event: ChangeFacts & Pick<AuditEvent, "timeMs" | "outcome" | "reason" | "count">) => void;
  readonly eventsPerHourMax?: number;
}) {
  const joined = new Map<string, { attempt: JoinedAttempt; timeMs: number; count: number }>();
  let minute = 0;
  let hour = 0;
  let eventsOfHour = 0;
  let more = { count: 0, timeMs: 0 };

  function emitJoined(): void {
    for (const { attempt, timeMs, count } of joined.values()) {
      emit({ ...attempt, timeMs, count, teamId: "", target: "", requestId: "" });
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
    add(attempt: JoinedAttempt): void {
      const nowMs = clock.unixMs();
      turn(nowMs);
      const { actor, address, channel, action, outcome, reason, detail } = attempt;
      const name = JSON.stringify([actor, address, channel, action, outcome, reason, detail]);
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
    /** Emits the events whose minute is over; with `all`, also those of this minute. */
    flush({ all }: { readonly all: boolean } = { all: false }): void {
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
