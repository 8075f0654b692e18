import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../clock.ts";
import { StartRefused } from "../error.ts";
import type { InstanceRecord, InstanceRecordStore } from "./instance-record-store.ts";

/** Whether this process is the one that may serve the store. */
export interface InstanceGuard {
  /** True while no other process can have taken the store over: a request may be admitted now. Cheap. */
  holds(): boolean;
  /** Leaves the store to the next process; `holds` is false from then on. Never throws, and may be repeated. */
  release(): Promise<void>;
}

export interface InstanceTimes {
  /** How often the record is renewed, and looked at by one who waits for it. */
  readonly renewMs: number;
  /** How long after it sent its last successful renewal an instance still holds. */
  readonly holdMs: number;
  /** How long a record must be seen unchanged before it may be taken over: well over `holdMs`. */
  readonly lapseMs: number;
  /** How long to wait for that. */
  readonly waitMsMax: number;
}

/** What the operator should hear of. */
export interface InstanceEvents {
  /** Another instance holds the store, and the start waits for it to leave or lapse. Told once. */
  onWaiting(waitMsMax: number): void;
  /** A renewal failed; the next one follows. */
  onRenewalFailed(cause: unknown): void;
  /** Another instance took over: this one will never hold again and should end. */
  onLost(): void;
}

export interface InstanceGuardParts {
  readonly records: InstanceRecordStore;
  readonly clock: Clock;
  /** A new one for every attempt, so that a late or repeated message of an earlier one changes nothing. */
  readonly newIncarnation: () => string;
  readonly times: InstanceTimes;
  readonly events: InstanceEvents;
  /** Ends the wait: then the store is not taken. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Takes the store for this process alone. Where another holds it, waits until that one left or its record was
 * seen unchanged for `lapseMs` on this process's own monotonic clock; throws StartRefused after `waitMsMax`.
 */
export async function takeInstance(parts: InstanceGuardParts): Promise<InstanceGuard> {
  const { records, clock, newIncarnation, times, events } = parts;
  const startMs = clock.monotonicMs();
  let told = false;
  let seen: (InstanceRecord & { readonly sinceMs: number }) | undefined;
  for (;;) {
    const incarnation = newIncarnation();
    // The hold counts from before anything was sent, and so ends before a successor's count does.
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
    if (!told) events.onWaiting(times.waitMsMax);
    told = true;
    await sleep(times.renewMs, undefined, { signal: parts.signal }).catch(() => {});
    if (parts.signal?.aborted) throw new StartRefused("It was told to stop before it had the store.");
  }
}

function stillServed(waitedMs: number): StartRefused {
  const seconds = Math.round(waitedMs / 1_000);
  return new StartRefused(
    `Another Keyrun serves this MongoDB database and was alive all of the last ${seconds} s. Only one may: stop it, or give this one another database in KEYRUN_MONGODB_URI.`,
  );
}

function holdInstance(
  { records, clock, times, events }: InstanceGuardParts,
  held: { readonly incarnation: string; readonly sentMs: number },
): InstanceGuard {
  let renewedMs = held.sentMs;
  let over = false;
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
      if (await records.renew(held.incarnation)) renewedMs = sentMs;
      else if (!over) {
        over = true;
        events.onLost();
      }
    } catch (cause) {
      events.onRenewalFailed(cause);
    }
  }

  return {
    holds: () => !over && clock.monotonicMs() - renewedMs < times.holdMs,
    async release() {
      over = true;
      stop.abort();
      await renewing;
      // A record that can't be removed lapses by itself.
      await records.remove(held.incarnation).catch(() => {});
    },
  };
}
