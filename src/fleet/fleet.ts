// How a fleet works. Its instances share one control record in the store, every step on which is
// atomic (`control-store.ts`). Each one registers there, and holds a lease that its heartbeats
// extend (`registration.ts`, `lease.ts`): without a valid lease it admits nothing. A change that
// takes a right away (`security-state.ts`) is written, pushed into the record, and answered once no
// instance can act on what was before: each lease of the push has acknowledged it, or is over
// (`pushes.ts`, `barrier.ts`). Each heartbeat is answered with what its instance does not know yet,
// and the lease grows only after that is applied. An instance that can't serve with the others
// yields (`who-may-join.ts`), and one without Redis is a fleet of one (`alone.ts`). While Redis
// fails, each admits its share of a limit (`shares.ts`). Nobody compares clocks: only their rates
// must agree.

import type { FleetService } from "#gen/keyrun/v1/fleet_service_pb.ts";
import type { ServiceMethods } from "../auth/principal.ts";
import type { Clock, Timers } from "../base/clock.ts";
import type { SharePlace } from "../limit/share.ts";
import { fail } from "../refusal/refusal.ts";
import { StartRefused } from "../refusal/start-refused.ts";
import { createBarriers } from "./barrier.ts";
import type { ControlChange, ControlView, LeaseRecord } from "./control-store.ts";
import { createHeartbeat } from "./heartbeat.ts";
import { createJanitor } from "./janitor.ts";
import { createLease, type FleetTimes, lapseMsOf } from "./lease.ts";
import { createLeaseObservations } from "./lease-observations.ts";
import { createPushes } from "./pushes.ts";
import { createRegistration, type RegistrationParts } from "./registration.ts";
import { createShares } from "./shares.ts";

/** One instance's membership in a fleet. */
export interface Fleet {
  /**
   * Whether this instance may admit requests now: its lease is valid on the monotonic clock and on
   * the wall clock. Synchronous and cheap. Ask after the last wait of a decision.
   */
  mayAdmit(): boolean;
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
   * that left still counts for `shareMs`, or until another one has taken over its share, for
   * twice as long at most. Undefined: no share, because this instance registered less than
   * `shareMs` ago and took none over, or is not registered.
   */
  sharePlace(): SharePlace | undefined;
  /**
   * Holds no more, ends the heartbeats and removes the own record, so that no later change waits
   * for this instance. Never rejects, and may be repeated.
   */
  leave(): Promise<void>;
}

/** What the operator should know of, for the log and metrics. None of them may throw. */
export interface FleetEvents {
  /** This instance holds a lease again, or for the first time. */
  onLeaseTaken?(): void;
  /**
   * Others removed this instance's record, or the record went back in time with the database; it
   * forgot everything and registers anew.
   */
  onFenced?(): void;
  /**
   * This instance was taken out and may not join again; the words say why. It beats no more and
   * may never admit again, so its process should end. Called once.
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

export interface FleetParts extends RegistrationParts {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly times: FleetTimes;
  /** Tells the instances at these addresses to beat now. Must not wait, and never throw. */
  readonly nudge: (addresses: readonly string[]) => void;
  /**
   * Called with every view that is not older than what is known, before its changes are applied,
   * and so before they are acknowledged and the lease grows. Where it throws, neither happens.
   */
  readonly onView?: (view: ControlView) => void;
  /**
   * Asked when this instance leaves: whether all that it admitted in the last `shareMs` is in
   * the shared log. Then another instance may take over its share of the limits at once.
   */
  readonly handsShareOver?: () => boolean;
  readonly events?: FleetEvents;
}

/**
 * Registers this instance in the fleet and keeps its lease by heartbeats until `leave`. Rejects
 * with the error of the store where the registration or the first heartbeat fails, and with
 * StartRefused where this instance may not join. Later failures only end the lease: they are tried
 * again, except that an instance that may not join again ends its heartbeats.
 */
export async function joinFleet(parts: FleetParts): Promise<Fleet> {
  const { control, clock, timers, times, events = {} } = parts;
  const lease = createLease(clock, times.leaseMs);
  const observations = createLeaseObservations(clock, lapseMsOf(times));
  const shares = createShares(clock, times.shareMs);
  let leases: readonly LeaseRecord[] = [];

  const registration = createRegistration({
    ...parts,
    events,
    lease,
    onJoined: shares.joined,
    takeView(view) {
      leases = view.leases;
      shares.see(view);
      learn(view);
      clean(view);
      void takeOver(view);
    },
  });
  const { isOwn } = registration;
  const clean = createJanitor({ control, observations, shares, registration, clock, times });
  const barriers = createBarriers({
    control,
    clock,
    timers,
    times,
    observations,
    isOwn,
    onSilent: events.onSilent,
    onRead: (view) => learn(view),
  });

  /** Takes what any answer shows. The lease does not grow by it. */
  function learn(view: ControlView): void {
    // Before its changes count as applied: what depends on the records is acknowledged with them. A
    // late view is older than what was shown already.
    if (registration.isNew(view)) parts.onView?.(view);
    // The acknowledgement should not wait for the next regular heartbeat.
    if (registration.take(view)) heartbeat.soon();
    observations.see(view);
    barriers.take(view);
  }

  let isTakingOver = false;
  /** While this instance has no share of the limits, it takes that of one that has left. */
  async function takeOver({ vacant: [share] = [] }: ControlView): Promise<void> {
    const id = registration.ownId();
    // An instance alone counts by itself, and leaves shares to the next fleet.
    if (parts.facts.alone || isTakingOver || id === undefined || !share || shares.placeOf(id)) return;
    isTakingOver = true;
    const isTaken = await control.takeOver(id, share).catch(() => false);
    isTakingOver = false;
    // The next view shows it, or what else is vacant.
    if (isTaken) heartbeat.soon();
  }

  const pushes = createPushes({
    control,
    clock,
    events,
    pass: barriers.pass,
    onPushed(view) {
      learn(view);
      parts.nudge(othersAddresses(view, isOwn));
    },
  });

  const heartbeat = createHeartbeat({
    clock,
    timers,
    beatMs: times.beatMs,
    async step() {
      await registration.beat();
      pushes.repeat();
    },
    onFailed(cause) {
      if (cause instanceof StartRefused) endRefused(cause.message);
      else events.onBeatFailed?.(cause);
    },
  });

  /** Another try would only count as one more instance among the others for a while. */
  function endRefused(words: string): void {
    registration.end();
    void heartbeat.stop();
    events.onRefused?.(words);
  }

  async function leave(): Promise<void> {
    const id = registration.ownId();
    const share = parts.handsShareOver?.() ? shares.shareOf(id) : undefined;
    registration.end();
    await heartbeat.stop();
    await pushes.idle();
    if (id === undefined) return;
    // Where it can't be removed, it lapses by itself.
    await (share ? control.vacate(id, share) : control.remove(id)).catch(() => {});
  }

  try {
    await registration.register();
    await registration.beat();
  } catch (cause) {
    await leave();
    throw cause;
  }
  heartbeat.start();
  return {
    mayAdmit: lease.isValid,
    leftMs: lease.leftMs,
    announce: pushes.announce,
    nudged: heartbeat.soon,
    members: () => ({ ownId: registration.ownId(), leases }),
    sharePlace: () => shares.placeOf(registration.ownId()),
    leave,
  };
}

function othersAddresses({ leases }: ControlView, isOwn: (id: string) => boolean): string[] {
  return leases.flatMap(({ id, facts }) => (facts.address !== null && !isOwn(id) ? [facts.address] : []));
}

/** `nudged` is called with each nudge of another instance; undefined where there is no fleet. */
export function createFleetService(nudged: (() => void) | undefined): ServiceMethods<typeof FleetService> {
  return {
    nudge() {
      if (!nudged) throw fail("UNIMPLEMENTED");
      nudged();
      return {};
    },
  };
}
