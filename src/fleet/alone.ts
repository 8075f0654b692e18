/**
 * An instance without Redis is a fleet of one. It registers, beats and leaves as each instance of a
 * fleet does, and says of itself that it is alone: then nobody else may serve beside it, so it has
 * nobody to tell of its changes. Of two that register in one moment the control record says who was
 * first, and the other one yields.
 */

import { type Clock, systemTimers, type Timers } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import { unavailable } from "../refusal/refusal.ts";
import type { ControlStore, InstanceFacts, LeaseRecord } from "./control-store.ts";
import { joinFleet } from "./fleet.ts";
import { type FleetTimes, fleetTimes, lapseMsOf } from "./lease.ts";
import { awaitLeasesGone } from "./lease-observations.ts";
import { leasesBefore, obstacleToServe } from "./who-may-join.ts";

/** Says whether this process is the one that may serve the store. */
export interface InstanceGuard {
  /** True while no other process can serve the store alone, so a request may be admitted. Cheap. */
  isValid(): boolean;
  /**
   * For how long `isValid` stays true if the store never answers again; 0 where it is false. Absent
   * where nobody can take the store over.
   */
  leftMs?(): number;
  /** The error of the last heartbeat, if that failed. Absent as `leftMs` is. */
  whyNot?(): unknown;
  /**
   * Leaves the store to the next process; `isValid` returns false from then on. Never throws, and
   * may be repeated.
   */
  release(): Promise<void>;
}

/** What the operator should know of an instance that serves alone. */
export interface InstanceEvents {
  /** Others are in the way, and the start waits for them to leave or lapse. Called once. */
  onWaiting(waitMsMax: number): void;
  /** A heartbeat failed, the first one of an outage. The next one follows. */
  onRenewalFailed(cause: unknown): void;
  /** Another instance took over: this one will never be valid again and should end. */
  onLost(): void;
}

export interface InstanceTimes extends FleetTimes {
  /** After this time without a heartbeat, another instance's lease is over: `lapseMsOf`. */
  readonly lapseMs: number;
  /** How long a start waits for others to leave. */
  readonly waitMsMax: number;
}

/** The times of every instance, alone or not. */
export const instanceTimes: InstanceTimes = {
  ...fleetTimes,
  lapseMs: lapseMsOf(fleetTimes),
  waitMsMax: bounds.instanceWaitMsMax,
};

export interface AloneParts {
  readonly clock: Clock;
  /** A new UUID each time. */
  readonly newIncarnation: () => string;
  readonly events: InstanceEvents;
  /** Ends the wait for others to leave. */
  readonly signal?: AbortSignal | undefined;
  /** Those of every instance where they are absent. */
  readonly times?: InstanceTimes;
  readonly timers?: Timers;
}

/**
 * Takes the store for this process alone, until the guard is released. Throws StartRefused, with
 * what to do, where others still serve it after `waitMsMax`.
 */
export async function serveAlone(control: ControlStore, parts: AloneParts): Promise<InstanceGuard> {
  const { clock, events, times = instanceTimes } = parts;
  await awaitOthers(control, { ...parts, alone: true });
  let hasServed = false;
  let trouble: unknown;
  const { mayAdmit, leftMs, leave } = await joinFleet({
    control,
    clock,
    timers: parts.timers ?? systemTimers,
    times,
    newId: parts.newIncarnation,
    facts: factsAlone,
    mayJoin({ leases }, id) {
      // Others may have served meanwhile, and nothing has told this process of their changes.
      if (hasServed) return "This Keyrun served the database alone, and another one has taken it over.";
      return obstacleToServe(true, leasesBefore(leases, id))?.(times.leaseMs / 1_000);
    },
    // Nobody else makes changes.
    apply: () => {},
    clear: () => {},
    nudge: () => {},
    onView() {
      trouble = undefined;
    },
    events: {
      onBeatFailed(cause) {
        // One line for an outage, and not four a second.
        if (trouble === undefined) events.onRenewalFailed(cause);
        trouble = cause;
      },
      onRefused: () => events.onLost(),
    },
  });
  hasServed = true;
  return { isValid: mayAdmit, leftMs, whyNot: () => trouble, release: leave };
}

/** What an instance alone says of itself. */
export const factsAlone: InstanceFacts = {
  alone: true,
  // The rest is of no use to those that may not join anyway.
  protocol: 0,
  version: "",
  schema: 0,
  secretVersions: [],
  serviceTokenMark: "",
  keyPrefix: "",
  address: null,
};

/**
 * Waits until nobody serves the store with whom this instance can't: until each has left, or its
 * lease has lapsed and was removed, so that it can't go on if it wakes up. An instance alone can
 * serve with nobody, and one of a fleet with every other one of a fleet. Throws StartRefused after
 * `waitMsMax`.
 */
export async function awaitOthers(
  control: ControlStore,
  parts: AloneParts & { readonly alone: boolean },
): Promise<void> {
  const obstacle = (leases: readonly LeaseRecord[]) => obstacleToServe(parts.alone, leases);
  await awaitLeasesGone({ ...parts, control, obstacle, times: parts.times ?? instanceTimes });
}

/**
 * The control store of a fleet, in which an instance registers only while none serves the store
 * alone. Otherwise its record is removed again, and `register` throws UNAVAILABLE. After that,
 * `requireServable` throws where the store may not be served: one that was alone in it may have
 * come and gone since the start, and left it unfit. Holds for every registration, also of an
 * instance that had lost its lease.
 */
export function registerBesideNoLoneInstance(
  control: ControlStore,
  requireServable: () => Promise<void>,
): ControlStore {
  return {
    ...control,
    async register(id, facts, limits) {
      const isAlone = ({ facts }: { readonly facts: InstanceFacts }) => facts.alone;
      // Most often this read is enough, and no instance sees a record that comes and goes.
      if ((await control.read()).leases.some(isAlone)) throw servedAlone();
      const view = await control.register(id, facts, limits);
      try {
        if (leasesBefore(view.leases, id).some(isAlone)) throw servedAlone();
        await requireServable();
        return view;
      } catch (thrown) {
        // Where the record can't be removed, it lapses by itself.
        await control.remove(id).catch(() => {});
        throw thrown;
      }
    },
  };
}

function servedAlone() {
  return unavailable({ cause: new Error("another Keyrun serves this database alone, without a fleet") });
}
