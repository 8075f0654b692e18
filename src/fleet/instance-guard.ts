import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../base/clock.ts";
import { StartRefused } from "../refusal/start-refused.ts";
import type { InstanceRecord, InstanceRecordStore } from "./instance-record-store.ts";

/** Says whether this process is the one that may serve the store. */
export interface InstanceGuard {
  /**
   * True while no other process can have taken the store over, so a request may be admitted now.
   * Cheap.
   */
  holds(): boolean;
  /**
   * For how long `holds` stays true if the store never answers again; 0 where it is false. Absent
   * where nobody can take the store over.
   */
  leftMs?(): number;
  /** The error of the last renewal, if that failed. Absent as `leftMs` is. */
  whyNot?(): unknown;
  /**
   * Leaves the store to the next process; `holds` returns false from then on. Never throws, and may
   * be repeated.
   */
  release(): Promise<void>;
}

export interface InstanceTimes {
  /** How often the holder renews the record, and how often a waiting instance reads it. */
  readonly renewMs: number;
  /** How long an instance still holds the store after it sent its last successful renewal. */
  readonly holdMs: number;
  /**
   * How long a record must be seen unchanged before another instance may take over: well over
   * `holdMs`.
   */
  readonly lapseMs: number;
  /** How long a start waits for the store at most. */
  readonly waitMsMax: number;
}

/** Events that the operator should know of. */
export interface InstanceEvents {
  /**
   * Another instance holds the store, and the start waits for it to leave or lapse. Called once.
   */
  onWaiting(waitMsMax: number): void;
  /** A renewal failed; the next one follows. */
  onRenewalFailed(cause: unknown): void;
  /** Another instance took over: this one will never hold again and should end. */
  onLost(): void;
}

export interface InstanceGuardParts {
  readonly records: InstanceRecordStore;
  readonly clock: Clock;
  /**
   * A new one for every attempt, so that a late or repeated message of an earlier attempt changes
   * nothing.
   */
  readonly newIncarnation: () => string;
  readonly times: InstanceTimes;
  readonly events: InstanceEvents;
  /** Ends the wait; the store is then not taken. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Takes the store for this process alone. Where another instance holds it, waits until that
 * instance left, or until its record was seen unchanged for `lapseMs` on this process's own
 * monotonic clock. Throws StartRefused after `waitMsMax`.
 */
export async function takeInstance(parts: InstanceGuardParts): Promise<InstanceGuard> {
  const { records, clock, newIncarnation, times, events } = parts;
  const startMs = clock.monotonicMs();
  let announced = false;
  let seen: (InstanceRecord & { readonly sinceMs: number }) | undefined;
  for (;;) {
    const incarnation = newIncarnation();
    // The hold counts from before anything was sent, so it ends before a successor may take over.
    const sentMs = clock.monotonicMs();
    const record = await records.find();
    if (!record) {
      if (await records.create(incarnation)) return holdInstance(parts, { incarnation, sentMs });
    } else if (!seen || seen.incarnation !== record.incarnation || seen.beat !== record.beat) {
      seen = { ...record, sinceMs: clock.monotonicMs() };
    } else if (sentMs - seen.sinceMs >= times.lapseMs) {
      if (await records.replace(record, incarnation)) return holdInstance(parts, { incarnation, sentMs });
    }
    const waitedMs = clock.monotonicMs() - startMs;
    if (waitedMs >= times.waitMsMax) throw stillServed(waitedMs);
    if (!announced) events.onWaiting(times.waitMsMax);
    announced = true;
    await sleep(times.renewMs, undefined, { signal: parts.signal }).catch(() => {});
    if (parts.signal?.aborted) throw new StartRefused("Keyrun was stopped while it waited for the store.");
  }
}

function stillServed(waitedMs: number): StartRefused {
  const seconds = Math.round(waitedMs / 1_000);
  return new StartRefused(
    `Another Keyrun serves this MongoDB database and was active during the last ${seconds} s. Only one may serve it: stop the other one, or set KEYRUN_MONGODB_URI to another database.`,
  );
}

function holdInstance(
  { records, clock, times, events }: InstanceGuardParts,
  held: { readonly incarnation: string; readonly sentMs: number },
): InstanceGuard {
  let renewedMs = held.sentMs;
  let over = false;
  let trouble: unknown;
  const stop = new AbortController();
  const renewing = renewUntilStopped();

  async function renewUntilStopped(): Promise<void> {
    while (!over) {
      await sleep(times.renewMs, undefined, { ref: false, signal: stop.signal }).catch(() => {});
      if (!over) await renew();
    }
  }

  async function renew(): Promise<void> {
    const sentMs = clock.monotonicMs();
    try {
      if (await records.renew(held.incarnation)) {
        renewedMs = sentMs;
        trouble = undefined;
      } else if (!over) {
        over = true;
        events.onLost();
      }
    } catch (cause) {
      trouble = cause;
      events.onRenewalFailed(cause);
    }
  }

  return {
    leftMs: () => (over ? 0 : Math.max(0, renewedMs + times.holdMs - clock.monotonicMs())),
    whyNot: () => trouble,
    holds: () => !over && clock.monotonicMs() - renewedMs < times.holdMs,
    async release() {
      over = true;
      stop.abort();
      await renewing;
      // Where the record can't be removed, it lapses by itself.
      await records.remove(held.incarnation).catch(() => {});
    },
  };
}
