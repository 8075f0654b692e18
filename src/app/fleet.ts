import { createInstanceTokens } from "../auth/instance-tokens.ts";
import { type Clock, systemTimers } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import type { InstanceLimits, LeaseRecord, NumberedChange } from "../fleet/control-store.ts";
import { type Fleet, type FleetEvents, joinFleet } from "../fleet/fleet.ts";
import { fleetTimes } from "../fleet/lease.ts";
import { bringPlanLimits, planLimitsOf } from "../fleet/plan-limits.ts";
import {
  awaitMayJoin,
  factsBefore,
  factsFrom,
  leasesBefore,
  refusalOfRedis,
  refusalToJoin,
} from "../fleet/who-may-join.ts";
import type { ServiceSecrets } from "../keys/service-secrets.ts";
import type { Log } from "../log/log.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { createNudge } from "../rpc/nudge.ts";
import type { Config, PlanName } from "../settings/config.ts";
import { schemaNumber } from "../store/schema-number.ts";
import type { FleetStore } from "../store/stores.ts";
import { createHoldLog } from "./hold-log.ts";
import type { RenewedTls } from "./renewed-tls.ts";

export interface EnterFleetParts {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly store: FleetStore;
  readonly secrets: ServiceSecrets;
  readonly serviceToken: string;
  /** The version of Keyrun. */
  readonly version: string;
  readonly tls: RenewedTls | undefined;
  readonly newId: () => string;
  /** Raises the floors that changes of all instances ask for. */
  readonly apply: (changes: readonly NumberedChange[]) => void;
  /** How this instance counts requests; its share is added. Undefined: it is not told. */
  readonly limits: (() => Omit<InstanceLimits, "share">) | undefined;
  /** Forgets what is cached: changes may have been missed. */
  readonly clear: () => void;
  /** Called once if this instance was taken out and may not join again: it should end. */
  readonly onRefused: ((words: string) => void) | undefined;
  /** As in `FleetParts`. */
  readonly handsShareOver: () => boolean;
  /** Ends the wait for instances that this one can't serve with. */
  readonly signal: AbortSignal | undefined;
}

export interface EnteredFleet extends Fleet {
  /** Requests a minute of the plan: the settings of the instance that joined last hold for all. */
  limitOf(plan: PlanName): number;
  /** Why it does not hold, for the log; undefined where it does. */
  whyNot(): unknown;
  /** Looks whether it holds, for the log. Call it regularly. */
  lookAtHold(): void;
  /** The marks of the Redises in which others share limits now, or those that joined earlier. */
  redisMarksOf(others: "all" | "earlier"): readonly string[];
}

/**
 * Makes this process an instance of the fleet that serves the database. Throws StartRefused if it
 * could not serve with the instances there.
 */
export async function enterFleet(parts: EnterFleetParts): Promise<EnteredFleet> {
  const { config, clock, log, signal } = parts;
  const { control } = parts.store;
  const facts = factsFrom(config, {
    version: parts.version,
    schema: schemaNumber,
    secretVersions: parts.secrets.versions,
    serviceToken: parts.serviceToken,
  });
  const onWaiting = (waitMsMax: number) =>
    log.warn({ waitMsMax }, "this instance can't serve with those of the fleet: waiting for them to leave");
  const redisMark = () => parts.limits?.().redisMark ?? undefined;
  await awaitMayJoin({
    control,
    facts,
    redisMark: redisMark(),
    clock,
    times: fleetTimes,
    events: { onWaiting },
    signal,
  });

  let planLimits = config.planLimits;
  let isFailing = false;
  /** The last trouble of its heartbeats, since it held last. */
  let trouble: unknown;
  const whyNot = () => (joined?.holds() === false ? (trouble ?? stoodStill) : trouble);
  const holdLog = createHoldLog({ holds: () => joined?.holds() ?? true, whyNot, log });
  let joined: Fleet | undefined;
  const fleet = await joinFleet({
    control,
    clock,
    facts,
    ...(parts.limits && { limits: limitsWith(parts.limits, () => joined) }),
    apply: parts.apply,
    clear: parts.clear,
    newId: parts.newId,
    handsShareOver: parts.handsShareOver,
    timers: systemTimers,
    times: fleetTimes,
    nudge: nudgeOf(parts),
    mayJoin({ leases }, ownId) {
      const words = refusalToJoin(facts, factsBefore(leases, ownId));
      // Later, a Redis that came back while this instance stood still is no reason to end.
      return words ?? (joined ? undefined : refusalOfRedis(redisMark(), leasesBefore(leases, ownId)));
    },
    onView(view) {
      isFailing = false;
      if (joined?.holds()) trouble = undefined;
      planLimits = planLimitsOf(view.planLimits, config.planLimits);
    },
    events: {
      ...eventsOf(parts),
      onHeld() {
        parts.metrics.leaseTaken();
        holdLog.held(joined && (trouble ?? stoodStill));
        trouble = undefined;
      },
      onFenced() {
        parts.metrics.fenced();
        trouble = new Error("the other instances took this one for dead");
        log.warn("the other instances took this one for dead: it begins anew");
      },
      onBeatFailed(err) {
        trouble = err;
        // One line for an outage, and not four a second.
        if (!isFailing) log.warn({ err }, "a heartbeat of this instance failed: it is tried again");
        isFailing = true;
      },
    },
  });
  joined = fleet;
  // A limit that this instance lowers holds everywhere before it serves.
  try {
    await bringPlanLimits(control, fleet, config.planLimits);
  } catch (thrown) {
    await fleet.leave();
    throw thrown;
  }
  return {
    ...fleet,
    whyNot,
    lookAtHold: holdLog.look,
    limitOf: (plan) => planLimits[plan],
    redisMarksOf(others) {
      const { ownId, leases } = fleet.members();
      const isOther = (lease: LeaseRecord) => lease.id !== ownId;
      const asked = others === "all" ? leases.filter(isOther) : leasesBefore(leases, ownId);
      return asked.flatMap(({ limits }) => limits?.redisMark ?? []);
    },
  };
}

const stoodStill = new Error(
  "no heartbeat was answered for 5 s: this process or its host stood still, or its clock was set",
);

function limitsWith(
  limits: () => Omit<InstanceLimits, "share">,
  fleet: () => Pick<Fleet, "standing"> | undefined,
): () => InstanceLimits {
  return () => {
    const standing = fleet()?.standing();
    return { ...limits(), share: standing ? `${standing.place + 1}/${standing.of}` : null };
  };
}

function nudgeOf({ secrets, tls, log }: EnterFleetParts): (addresses: readonly string[]) => void {
  const nudge = createNudge({
    token: createInstanceTokens(secrets).own,
    tls: () => tls?.current(),
    msMax: bounds.nudgeMsMax,
    onFailed: (address, cause) => log.debug({ address, cause }, "an instance could not be nudged"),
  });
  return nudge.send;
}

function eventsOf({ log, metrics, onRefused }: EnterFleetParts): FleetEvents {
  return {
    onRefused: (words) => onRefused?.(words),
    onPushFailed: (err) => log.warn({ err }, "a change could not be told to the fleet: it is tried again"),
    onSilent(leases) {
      const instances = leases.map(({ id, facts }) => ({ id, address: facts.address }));
      log.warn({ instances }, "a change waited until the leases of instances that did not answer were over");
    },
    onBarrier: (ms) => metrics.changeSettled(ms / 1_000),
  };
}
