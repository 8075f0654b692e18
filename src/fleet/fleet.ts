import type { Clock, Timers } from "../base/clock.ts";
import type { Standing } from "../limit/share.ts";
import type { ControlChange, ControlStore, ControlView, InstanceLimits, LeaseRecord, NumberedChange } from "./control-store.ts";
import type { FleetTimes } from "./fleet-times.ts";
import type { InstanceFacts } from "./instance-facts.ts";

/** One instance's membership in a fleet. */
export interface Fleet {
  /**
   * Whether this instance may admit requests now: its lease is valid on the monotonic clock and on
   * the wall clock. Synchronous and cheap. Ask after the last wait of a decision.
   */
  holds(): boolean;
  /** For how long it would still be, if the store never answered again; 0 where it may not. */
  leftMs(): number;
  /**
   * Tells every instance of durable changes. Call it after the write, and after this process raised
   * its own floors.
   *
   * With `wait` it resolves once no instance can act on older knowledge: each has acknowledged, or
   * its lease has lapsed. Rejects with the error of the store; the changes are then pushed again
   * with each heartbeat until they are through, but nobody waits for them. Without `wait` it
   * resolves at once and never rejects.
   */
  announce(changes: readonly ControlChange[], options: { readonly wait: boolean }): Promise<void>;
  /** Another instance has pushed a change: the next heartbeat is due now. */
  nudged(): void;
  /** The records of the last view, and this instance's own id; undefined: it is not registered. */
  members(): { readonly ownId: string | undefined; readonly leases: readonly LeaseRecord[] };
  /**
   * This instance's place among those that share a limit, by order of registration. An instance
   * that left still counts for `standingMs`, or until another one has taken over its share, for
   * twice as long at most. Undefined: no share, because this instance registered less than
   * `standingMs` ago and took none over, or is not registered.
   */
  standing(): Standing | undefined;
  /**
   * Holds no more, ends the heartbeats and removes the own record, so that no later change waits
   * for this instance. Never rejects, and may be repeated.
   */
  leave(): Promise<void>;
}

/** What the operator should know of, for the log and metrics. None of them may throw. */
export interface FleetEvents {
  /** This instance holds a lease again, or for the first time. */
  onHeld?(): void;
  /**
   * Others removed this instance's record, or the record went back in time with the database; it
   * forgot everything and registers anew.
   */
  onFenced?(): void;
  /**
   * This instance was taken out and may not join again; the words say why. It beats no more and
   * will never hold again, so its process should end. Called once.
   */
  onRefused?(words: string): void;
  /** A heartbeat or a new registration failed; the next one follows. */
  onBeatFailed?(cause: unknown): void;
  /** A push failed; it is repeated with the next heartbeat. */
  onPushFailed?(cause: unknown): void;
  /** Instances that did not acknowledge a change, which waited until their leases had lapsed. */
  onSilent?(leases: readonly LeaseRecord[]): void;
  /** A change has passed the barrier `ms` after its push was asked for. */
  onBarrier?(ms: number): void;
}

export interface FleetParts {
  readonly control: ControlStore;
  readonly clock: Clock;
  readonly timers: Timers;
  /** Unique for ever, at every call. */
  readonly newId: () => string;
  readonly facts: InstanceFacts;
  /** How this instance counts now, for the others. Absent: they are told nothing of it. */
  readonly limits?: () => InstanceLimits;
  readonly times: FleetTimes;
  /**
   * Raises the floors of changes that others or this process pushed, by ascending seq. Must do it
   * synchronously: the lease grows right after it. Where it throws, the lease does not grow.
   */
  readonly apply: (changes: readonly NumberedChange[]) => void;
  /** Forgets everything that may be out of date, also what is being read now. Synchronous. */
  readonly clear: () => void;
  /** Tells the instances at these addresses to beat now. Must not wait, and never throw. */
  readonly nudge: (addresses: readonly string[]) => void;
  /**
   * Judges every registration, also a later one, before its lease counts. Words say why this
   * instance may not join; its record is then removed.
   */
  readonly mayJoin?: (view: ControlView, ownId: string) => string | undefined;
  /**
   * Called with every view that is not older than what is known, before its changes are applied,
   * and so before they are acknowledged and the lease grows. Where it throws, neither happens.
   */
  readonly onView?: (view: ControlView) => void;
  /**
   * Asked when this instance leaves: whether all that it admitted in the last `standingMs` is in
   * the shared log. Then another instance may take over its share of the limits at once.
   */
  readonly handsShareOver?: () => boolean;
  readonly events?: FleetEvents;
}
