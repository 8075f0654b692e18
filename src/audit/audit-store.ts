/** An event of the audit log, its bounds, and the port of the store. */

import { z } from "zod";
import { filled, timeMs } from "../base/record-fields.ts";

/** A change, or the refused attempt at one. Texts are empty where there is nothing to say. */
export const auditRecord = z.strictObject({
  id: filled,
  timeMs,
  actor: filled,
  address: z.string(),
  /** What the actor used; `none` if Keyrun did it by itself. */
  channel: z.enum(["none", "screen", "command_line", "rpc"]),
  action: filled,
  teamId: z.string(),
  /** What it was done to. Never what a caller sent as an id, if that has not the form of one. */
  target: z.string(),
  /** What exactly: `name=value` pairs with a space between two. Nothing in it is a free text. */
  detail: z.string(),
  requestId: z.string(),
  /** What became of it. A change that was begun is unknown until it has ended. */
  outcome: z.enum(["done", "refused", "unknown"]),
  /** The reason of a refusal. */
  reason: z.string(),
  /** How many attempts it stands for. */
  count: z.int().positive(),
});
export type AuditEvent = Readonly<z.infer<typeof auditRecord>>;

/** The event of a change under way, which the store writes. */
export interface PendingEvent {
  /** False once it is written, and once the change is over. */
  readonly isDue: boolean;
  /** The event as it is to be written beside the first change of the store. */
  record(): AuditEvent;
  /** Called when it is written for good, with the outcome that was written. */
  written(outcome: AuditEvent["outcome"]): void;
}

/** A place in the list, which is ordered by time and then by id, both descending. */
export type AuditCursor = Pick<AuditEvent, "timeMs" | "id">;

/** Which events to list. What is absent filters nothing. */
export interface AuditQuery {
  readonly limit: number;
  readonly teamId?: string;
  readonly actor?: string;
  readonly action?: string;
  /** Only events of one of these. */
  readonly targets?: readonly string[];
  readonly fromMs?: number;
  readonly beforeMs?: number;
  /** Only events after this place. */
  readonly after?: AuditCursor;
}

/**
 * The events. Nothing changes or removes one but `write`, for what became of it, and
 * `deleteBefore`. That a team is deleted removes none. The event of a change under way comes in
 * another way: every method of the other ports that changes what an event may tell writes the
 * pending event, as `whileChanging` promises.
 */
export interface AuditStore {
  /**
   * Writes the events. Where an id is there already, its outcome, reason, count, team, target and
   * detail become those of this event, and nothing else changes.
   */
  write(events: readonly AuditEvent[]): Promise<void>;
  /** Writes the event, and returns true. Does nothing, and returns false, if the id is there. */
  insert(event: AuditEvent): Promise<boolean>;
  /** At most `limit` events, newest first; none for a limit of 0 or less. */
  list(query: AuditQuery): Promise<AuditEvent[]>;
  /** Removes at most `limit` events older than `beforeMs`, oldest first, and returns how many. */
  deleteBefore(query: { readonly beforeMs: number; readonly limit: number }): Promise<number>;
}

/** The bounds of the audit log. */
export const auditBounds = {
  /** Joined events of one hour, on each instance. The last one counts what is beyond. */
  joinedEventsPerHourMax: 1_000,
  /** Refused attempts of known callers in a minute that get an event each. More are joined. */
  refusedPerMinuteMax: 300,
  /** Events that wait to be written while the store does not answer. More are in the log alone. */
  waitingEventsMax: 2_000,
  /** Events that are written at once. */
  writtenAtOnceMax: 200,
  /** How long events wait after a write that failed. */
  retryMs: 5_000,
  /** How often joined events whose minute is over are written. */
  joinedFlushMs: 5_000,
  /** How often old events are removed, and how many at once: a batch stops all other work. */
  sweepMs: 60_000,
  sweepMax: 500,
  /** Between two batches of one sweep. */
  sweepPauseMs: 50,
  /** Events of a changed secret that a start reads for the last one. */
  secretEventsMax: 20,
  /** The longest time from the begin of a team's creation to the team's time of creation. */
  creationMsMax: 60_000,
  /** The most targets that one list can name. */
  targetsMax: 100,
  /** The largest count of one event. */
  countMax: 2_147_483_647,
} as const;
