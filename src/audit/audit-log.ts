/**
 * Every change of a right, and every refused attempt at one, has an event. A change under way has a
 * `PendingChange`: the store writes its event with the change, or right before it, so no change is
 * without its event. What nobody waits for (attempts, what Keyrun did by itself, what became of a
 * change that was written as unknown) waits in memory until the store answers.
 */

import { setTimeout } from "node:timers/promises";
import type { ChangeSubject } from "../auth/principal.ts";
import { type Clock, createRepeatedWork } from "../base/clock.ts";
import { encodeCrockford, type RandomBytes } from "../base/ids.ts";
import type { Log } from "../log/log.ts";
import { rowOf } from "../refusal/reasons.ts";
import { type Refusal, refusalFrom } from "../refusal/refusal.ts";
import { type AuditEvent, type AuditStore, auditBounds } from "./audit-store.ts";
import { type ChangeFacts, PendingChange, whileChanging } from "./pending-change.ts";
import { createJoinedAttempts, createWaitingEvents } from "./waiting-events.ts";

/** How the event of a change is written. */
export interface ChangeForm {
  /**
   * `first`: before the work begins, because the work changes nothing in the store. `steps`: with
   * the first change of several, as unknown until all of them are made. Absent: with the change.
   */
  readonly written?: "first" | "steps" | undefined;
  /** What the work fills in of what the change is about. A refused attempt has the facts alone. */
  readonly subject?: ChangeSubject | undefined;
  /** All attempts of an unknown caller are joined. */
  readonly isUnknown?: boolean | undefined;
  /**
   * All refused attempts are joined, also a known caller's: it may try as many values as it likes.
   */
  readonly isGuess?: boolean | undefined;
  /**
   * Attempts with another detail are joined into another event. Only for details that Keyrun makes
   * itself, of which there are few.
   */
  readonly keepsDetail?: boolean | undefined;
}

/** Writes down who changed what. Each event is in the store and a line of the log. */
export interface AuditLog {
  /**
   * Does the work, with one event for it, also if it is refused. Work that succeeds and changes
   * nothing has none: it asked for what was so already. Returns or throws as the work does. Where
   * the event of a change can't be written, the change is not made.
   */
  during<T>(facts: ChangeFacts, work: () => Promise<T>, form?: ChangeForm): Promise<T>;
  /** Writes down an attempt that was refused before any work. */
  refused(facts: ChangeFacts, refusal: Refusal, form?: Omit<ChangeForm, "written">): void;
  /** Writes down what Keyrun did by itself, or what was found. Nobody waits for it. */
  happened(facts: ChangeFacts): void;
  /**
   * Writes down that the key has expired, under the id `expired:<key_id>`. Repeating it does
   * nothing. Await it before the key is marked: then no mark is without its event.
   */
  keyExpired(key: EndingKey): Promise<void>;
  /** As `keyExpired`, for a key that Keyrun revokes by itself, under the id `revoked:<key_id>`. */
  keyRevoked(key: EndingKey): Promise<void>;
  /** Resolves when what has happened so far can be listed, or the store does not answer. */
  flush(): Promise<void>;
  /** Starts to write joined attempts, and to remove events that are too old. */
  start(): void;
  /** Writes what waits. */
  close(): Promise<void>;
}

/** A key that Keyrun is about to end. */
export interface EndingKey {
  readonly teamId: string;
  readonly keyId: string;
  readonly timeMs: number;
}

export interface AuditLogParts {
  readonly clock: Pick<Clock, "unixMs">;
  readonly log: Pick<Log, "info" | "warn">;
  readonly store: AuditStore;
  readonly newId: NewEventId;
  /** Events are kept for so long. */
  readonly keptDays: number;
  readonly sweepMs?: number;
}

export function createAuditLog(parts: AuditLogParts): AuditLog {
  const { clock, log, store, newId } = parts;
  const waiting = createWaitingEvents({
    store,
    onWriteFailed: (err) => log.warn({ err }, "events of the audit log wait until the store answers"),
    onDropped: ({ id }) => log.warn({ id }, "an event of the audit log is in this log alone: too many wait"),
  });
  /** Each event is told once, when it is known what became of the change. */
  const tell = ({ id, timeMs, ...event }: AuditEvent) =>
    log.info({ audit: { id, time: new Date(timeMs).toISOString(), ...event } }, "audit");
  const later = (event: AuditEvent) => {
    tell(event);
    waiting.add(event);
  };
  const emit = (event: Omit<AuditEvent, "id">) => later({ ...event, id: newId(event.timeMs) });
  const ofUnknown = createJoinedAttempts({ clock, emit });
  const ofKnown = createJoinedAttempts({ clock, emit });
  const flushJoined = (options = { all: false }) => {
    for (const each of [ofUnknown, ofKnown]) each.flush(options);
  };
  const mayWriteRefused = createMinuteBudget(clock, auditBounds.refusedPerMinuteMax);
  const sweep = createSweep(parts);
  let joining: NodeJS.Timeout | undefined;

  /** An attempt that was refused, and of which the store has nothing. */
  function writeRefused(event: AuditEvent, { isUnknown, isGuess, keepsDetail }: ChangeForm): void {
    const joined = keepsDetail ? event : { ...event, detail: "" };
    if (isUnknown) ofUnknown.add(joined);
    else if (!isGuess && mayWriteRefused()) later(event);
    else ofKnown.add(joined);
  }

  function ended(change: PendingChange, refusal: Refusal | undefined, form: ChangeForm): void {
    change.end();
    const { writtenAs } = change;
    const isOpen = writtenAs !== undefined && refusal !== undefined && mayHaveChanged(refusal);
    const outcome = refusal === undefined ? "done" : isOpen ? "unknown" : "refused";
    const event = change.as(outcome, refusal?.reason);
    if (writtenAs === undefined) {
      if (refusal !== undefined) writeRefused(event, form);
    } else if (writtenAs === outcome && refusal === undefined) tell(event);
    else later(event);
  }

  async function writeOnce(event: AuditEvent): Promise<void> {
    if (await store.insert(event)) tell(event);
  }

  return {
    async during(facts, work, form = {}) {
      const timeMs = clock.unixMs();
      const change = new PendingChange(
        { ...facts, id: newId(timeMs), timeMs },
        { hasSteps: form.written !== undefined, subject: form.subject ?? {} },
      );
      if (form.written === "first") {
        const begun = change.record();
        await store.write([begun]);
        change.written(begun.outcome);
      }
      try {
        const result = await whileChanging(change, work);
        ended(change, undefined, form);
        return result;
      } catch (thrown) {
        ended(change, refusalFrom(thrown), form);
        throw thrown;
      }
    },
    refused(facts, { reason }, form = {}) {
      const timeMs = clock.unixMs();
      writeRefused({ ...facts, id: newId(timeMs), timeMs, outcome: "refused", reason, count: 1 }, form);
    },
    happened(facts) {
      emit({ ...facts, timeMs: clock.unixMs(), outcome: "done", reason: "", count: 1 });
    },
    keyExpired: (key) => writeOnce(endOf(key, { action: "key.expire", id: `expired:${key.keyId}` })),
    keyRevoked: (key) => writeOnce(endOf(key, { action: "key.revoke", id: `revoked:${key.keyId}` })),
    flush: waiting.flush,
    start() {
      joining ??= setInterval(() => flushJoined(), auditBounds.joinedFlushMs).unref();
      sweep.start();
    },
    async close() {
      clearInterval(joining);
      flushJoined({ all: true });
      await sweep.close();
      await waiting.close();
    },
  };
}

/** After such a refusal, what was begun may have been done, whole or in part. */
function mayHaveChanged({ reason }: Refusal): boolean {
  return rowOf(reason).httpStatus >= 499;
}

function endOf(
  { teamId, keyId, timeMs }: EndingKey,
  { action, id }: Pick<AuditEvent, "action" | "id">,
): AuditEvent {
  const facts = byKeyrun(action, { teamId, target: keyId });
  return { ...facts, id, timeMs, outcome: "done", reason: "", count: 1 };
}

/** The facts of what Keyrun does by itself. */
export function byKeyrun(action: string, { teamId = "", target = "" } = {}): ChangeFacts {
  return { actor: "Keyrun", address: "", channel: "none", action, teamId, target, detail: "", requestId: "" };
}

/** Returns a function that returns true at most `max` times in a minute. */
function createMinuteBudget(clock: Pick<Clock, "unixMs">, max: number): () => boolean {
  let minute = 0;
  let used = 0;
  return () => {
    const now = Math.floor(clock.unixMs() / 60_000);
    used = now === minute ? used + 1 : 1;
    minute = now;
    return used <= max;
  };
}

const dayMs = 86_400_000;

/**
 * Removes all events that are older than the setting allows, a batch at a time: were it one batch a
 * sweep, callers who change much could write faster than events go.
 */
function createSweep({ clock, log, store, keptDays, sweepMs = auditBounds.sweepMs }: AuditLogParts) {
  let isClosed = false;

  async function removeOld(): Promise<void> {
    const beforeMs = clock.unixMs() - keptDays * dayMs;
    const limit = auditBounds.sweepMax;
    while (!isClosed && (await store.deleteBefore({ beforeMs, limit })) === limit) {
      // Others first: a batch stops them.
      await setTimeout(auditBounds.sweepPauseMs);
    }
  }

  const sweep = () =>
    removeOld().catch((err) => log.warn({ err }, "old events could not be removed; the next sweep will"));
  const sweeps = createRepeatedWork(sweep, sweepMs);
  return {
    start: sweeps.start,
    async close() {
      isClosed = true;
      await sweeps.stop();
    },
  };
}

/** Makes the id of an event that happened at this time. */
type NewEventId = (timeMs: number) => string;

const timeBytes = 6;
const sequenceBytes = 3;
/** With the others 20 bytes, which are 32 characters. */
const randomIdBytes = 11;

/**
 * Makes ids like `evt_01jd2q8k4m7n9p3r5s6t8v0w1x2y3z4a`: their order is that of their times, and of
 * their creation within a millisecond. 88 random bits tell those of several instances apart.
 */
export function createEventIds(randomBytes: RandomBytes): NewEventId {
  let lastMs = 0;
  let sequence = 0;
  return (timeMs) => {
    sequence = timeMs === lastMs ? sequence + 1 : 0;
    lastMs = timeMs;
    const bytes = Buffer.alloc(timeBytes + sequenceBytes + randomIdBytes);
    bytes.writeUIntBE(timeMs, 0, timeBytes);
    bytes.writeUIntBE(sequence % 2 ** 24, timeBytes, sequenceBytes);
    bytes.set(randomBytes(randomIdBytes), timeBytes + sequenceBytes);
    return `evt_${encodeCrockford(bytes)}`;
  };
}
