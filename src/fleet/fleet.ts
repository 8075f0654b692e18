/**
 * How a fleet works. Its instances share one control record in the store, every step on which is
 * atomic (`control-store.ts`). Each one registers there, and holds a lease that its heartbeats
 * extend (`registration.ts`, `lease.ts`): without a valid lease it admits nothing. A change that
 * takes a right away (`security-state.ts`) is written, pushed into the record, and answered once no
 * instance can act on what was before: each lease of the push has acknowledged it, or is over
 * (`pushes.ts`, `barrier.ts`). Each heartbeat is answered with what its instance does not know yet,
 * and the lease grows only after that is applied. An instance that can't serve with the others
 * yields (`who-may-join.ts`), and one without Redis is a fleet of one (`alone.ts`). While Redis
 * fails, each admits its share of a limit (`shares.ts`). Nobody compares clocks: only their rates
 * must agree.
 */

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
import { createLeaseObservations, type LeaseObservations } from "./lease-observations.ts";
import { createPushes } from "./pushes.ts";
import { Registration, type RegistrationParts } from "./registration.ts";
import { createShares, type Shares } from "./shares.ts";

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
  const member = new Member(parts);
  await member.join();
  return {
    mayAdmit: member.lease.isValid,
    leftMs: member.lease.leftMs,
    announce: member.pushes.announce,
    nudged: member.heartbeat.soon,
    members: () => ({ ownId: member.registration.ownId(), leases: member.leases }),
    sharePlace: () => member.shares.placeOf(member.registration.ownId()),
    leave: () => member.leave(),
  };
}

/** The parts of one instance in its fleet, and how what each learns reaches the others. */
class Member {
  readonly lease: ReturnType<typeof createLease>;
  readonly shares: Shares;
  readonly registration: Registration;
  readonly pushes: ReturnType<typeof createPushes>;
  readonly heartbeat: ReturnType<typeof createHeartbeat>;
  /** Those of the last view. */
  leases: readonly LeaseRecord[] = [];
  readonly #parts: FleetParts;
  readonly #observations: LeaseObservations;
  readonly #barriers: ReturnType<typeof createBarriers>;
  readonly #clean: ReturnType<typeof createJanitor>;
  #isTakingOver = false;

  constructor(parts: FleetParts) {
    const { control, clock, timers, times, events = {} } = parts;
    this.#parts = parts;
    const lease = createLease(clock, times.leaseMs);
    const observations = createLeaseObservations(clock, lapseMsOf(times));
    const shares = createShares(clock, times.shareMs);
    const registration = new Registration({
      ...parts,
      events,
      lease,
      onJoined: shares.joined,
      takeView: (view) => this.#takeView(view),
    });
    const isOwn = (id: string) => registration.isOwn(id);
    this.lease = lease;
    this.shares = shares;
    this.registration = registration;
    this.#observations = observations;
    this.#clean = createJanitor({ control, observations, shares, registration, clock, times });
    this.#barriers = createBarriers({
      control,
      clock,
      timers,
      times,
      observations,
      isOwn,
      onSilent: events.onSilent,
      onRead: (view) => this.#learn(view),
    });
    this.pushes = createPushes({
      control,
      clock,
      events,
      pass: this.#barriers.pass,
      onPushed: (view) => {
        this.#learn(view);
        parts.nudge(othersAddresses(view, isOwn));
      },
    });
    this.heartbeat = createHeartbeat({
      clock,
      timers,
      beatMs: times.beatMs,
      step: () => this.#beat(),
      onFailed: (cause) => this.#onBeatFailed(cause),
    });
  }

  async join(): Promise<void> {
    try {
      await this.registration.register();
      await this.registration.beat();
    } catch (cause) {
      await this.leave();
      throw cause;
    }
    this.heartbeat.start();
  }

  async leave(): Promise<void> {
    const { control, handsShareOver } = this.#parts;
    const id = this.registration.ownId();
    const share = handsShareOver?.() ? this.shares.shareOf(id) : undefined;
    this.registration.end();
    await this.heartbeat.stop();
    await this.pushes.idle();
    if (id === undefined) return;
    // Where it can't be removed, it lapses by itself.
    await (share ? control.vacate(id, share) : control.remove(id)).catch(() => {});
  }

  async #beat(): Promise<void> {
    await this.registration.beat();
    this.pushes.repeat();
  }

  #onBeatFailed(cause: unknown): void {
    const { events } = this.#parts;
    if (!(cause instanceof StartRefused)) {
      events?.onBeatFailed?.(cause);
      return;
    }
    // Another try would only count as one more instance among the others for a while.
    this.registration.end();
    void this.heartbeat.stop();
    events?.onRefused?.(cause.message);
  }

  /** The view of an own step. */
  #takeView(view: ControlView): void {
    this.leases = view.leases;
    this.shares.see(view);
    this.#learn(view);
    this.#clean(view);
    void this.#takeOver(view);
  }

  /** Takes what any answer shows. The lease does not grow by it. */
  #learn(view: ControlView): void {
    // Before its changes count as applied: what depends on the records is acknowledged with them. A
    // late view is older than what was shown already.
    if (this.registration.isNew(view)) this.#parts.onView?.(view);
    // The acknowledgement should not wait for the next regular heartbeat.
    if (this.registration.take(view)) this.heartbeat.soon();
    this.#observations.see(view);
    this.#barriers.take(view);
  }

  /** While this instance has no share of the limits, it takes that of one that has left. */
  async #takeOver({ vacant: [share] = [] }: ControlView): Promise<void> {
    const id = this.registration.ownId();
    // An instance alone counts by itself, and leaves shares to the next fleet.
    if (this.#parts.facts.alone || this.#isTakingOver || id === undefined || !share) return;
    if (this.shares.placeOf(id)) return;
    this.#isTakingOver = true;
    const isTaken = await this.#parts.control.takeOver(id, share).catch(() => false);
    this.#isTakingOver = false;
    // The next view shows it, or what else is vacant.
    if (isTaken) this.heartbeat.soon();
  }
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
