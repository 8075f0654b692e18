/** This process as an instance of a fleet: what it says of itself, and what it logs and counts. */

import { createInstanceTokens } from "../auth/instance-tokens.ts";
import { type Clock, systemTimers } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import type { ControlView, InstanceFacts, InstanceLimits, LeaseRecord } from "../fleet/control-store.ts";
import { type Fleet, type FleetEvents, type FleetParts, joinFleet } from "../fleet/fleet.ts";
import { fleetTimes } from "../fleet/lease.ts";
import { bringPlanLimits, type PlanLimits, planLimitsOf } from "../fleet/plan-limits.ts";
import type { RegistrationParts } from "../fleet/registration.ts";
import {
  awaitMayJoin,
  factsBefore,
  factsFrom,
  leasesBefore,
  refusalOfRedis,
  refusalToJoin,
} from "../fleet/who-may-join.ts";
import type { ServiceSecrets } from "../keys/service-secrets.ts";
import type { FleetOfRedis } from "../limit/redis/redis-logs.ts";
import type { SharedLimiter } from "../limit/redis/shared-limiter.ts";
import type { SharePlace } from "../limit/share.ts";
import type { Log } from "../log/log.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { createNudge } from "../rpc/nudge.ts";
import type { Config, PlanName, QuotaLimit } from "../settings/config.ts";
import { schemaNumber } from "../store/schema-number.ts";
import type { FleetStore } from "../store/stores.ts";
import { createLeaseLog, type LeaseLog } from "./lease-log.ts";
import type { RenewedTls } from "./renewed-tls.ts";

export interface FleetInstanceParts {
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
  readonly newRedisMark: () => string;
  /** Called once if this instance was taken out and may not join again: it should end. */
  readonly onRefused: ((words: string) => void) | undefined;
  /** Ends the wait for instances that this one can't serve with. */
  readonly signal: AbortSignal | undefined;
}

/** What an instance needs to join its fleet. */
export interface JoinParts extends Pick<RegistrationParts, "apply" | "clear"> {
  /** Undefined: it counts alone, and the others are not told how. */
  readonly limit: Pick<SharedLimiter, "mode" | "isAllShared"> | undefined;
}

/**
 * This process as an instance of the fleet that serves the database. The limit that the fleet
 * shares is opened before the instance joins, since one that can't serve must not count among the
 * others. Until then it knows of no others, and has no share.
 */
export class FleetInstance {
  /** What Redis asks of the fleet. */
  readonly redis: FleetOfRedis;
  readonly #parts: FleetInstanceParts;
  readonly #leaseLog: LeaseLog;
  #joined: Fleet | undefined;
  #redisMark: string | undefined;
  #plans: PlanLimits;
  #isFailing = false;
  /** The last trouble of its heartbeats, since its lease was last valid. */
  #trouble: unknown;

  constructor(parts: FleetInstanceParts) {
    this.#parts = parts;
    this.#plans = plansOf(parts.config);
    this.#leaseLog = createLeaseLog({
      mayAdmit: () => this.#joined?.mayAdmit() ?? true,
      whyNot: () => this.whyNot(),
      log: parts.log,
    });
    this.redis = {
      id: parts.store.id,
      newMark: parts.newRedisMark,
      marksOf: (others) => this.#redisMarksOf(others),
      onMark: (mark) => {
        this.#redisMark = mark;
      },
    };
  }

  /** As in `Fleet`. */
  sharePlace(): SharePlace | undefined {
    return this.#joined?.sharePlace();
  }

  /** Requests a minute of the plan: the settings of the instance that joined last hold for all. */
  limitOf(plan: PlanName): number {
    return this.#plans.limits[plan];
  }

  /** The quota of the plan; undefined where it has none. Those of the same instance hold. */
  quotaOf(plan: PlanName): QuotaLimit | undefined {
    return this.#plans.quotas[plan];
  }

  /** Why it may not admit requests, for the log; undefined where it may, or nobody knows. */
  whyNot(): unknown {
    return this.#joined?.mayAdmit() === false ? (this.#trouble ?? stoodStill) : this.#trouble;
  }

  /** Logs if it has lost its lease. Call it regularly. */
  checkLease(): void {
    this.#leaseLog.check();
  }

  /** Throws StartRefused if it could not serve with the instances there. */
  async join(joining: JoinParts): Promise<Fleet> {
    const { config, clock, log, signal, store } = this.#parts;
    const { control } = store;
    const facts = this.#facts();
    const onWaiting = (waitMsMax: number) =>
      log.warn({ waitMsMax }, "this instance can't serve with those of the fleet: waiting for them to leave");
    await awaitMayJoin({
      control,
      facts,
      redisMark: this.#redisMark,
      clock,
      times: fleetTimes,
      events: { onWaiting },
      signal,
    });
    const fleet = await joinFleet(this.#fleetParts(facts, joining));
    this.#joined = fleet;
    // A limit that this instance lowers holds everywhere before it serves.
    try {
      await bringPlanLimits(control, fleet, plansOf(config));
    } catch (thrown) {
      await fleet.leave();
      throw thrown;
    }
    return fleet;
  }

  #facts(): InstanceFacts {
    const { config, version, secrets, serviceToken } = this.#parts;
    const { versions: secretVersions } = secrets;
    return factsFrom(config, { version, schema: schemaNumber, secretVersions, serviceToken });
  }

  #fleetParts(facts: InstanceFacts, { apply, clear, limit }: JoinParts): FleetParts {
    const { clock, store, newId } = this.#parts;
    return {
      control: store.control,
      clock,
      facts,
      ...(limit && { limits: () => this.#limits(limit.mode()) }),
      apply,
      clear,
      newId,
      handsShareOver: () => limit?.isAllShared() ?? false,
      timers: systemTimers,
      times: fleetTimes,
      nudge: nudgeOf(this.#parts),
      mayJoin: ({ leases }, ownId) => this.#refusalToJoin(facts, leases, ownId),
      onView: (view) => this.#onView(view),
      events: { ...eventsOf(this.#parts), ...this.#leaseEvents() },
    };
  }

  #limits(mode: InstanceLimits["mode"]): InstanceLimits {
    const share = this.sharePlace();
    return {
      mode,
      redisMark: this.#redisMark ?? null,
      share: share ? `${share.place + 1}/${share.of}` : null,
    };
  }

  #refusalToJoin(facts: InstanceFacts, leases: readonly LeaseRecord[], ownId: string): string | undefined {
    const words = refusalToJoin(facts, factsBefore(leases, ownId));
    // Later, a Redis that came back while this instance stood still is no reason to end.
    if (words !== undefined || this.#joined) return words;
    return refusalOfRedis(this.#redisMark, leasesBefore(leases, ownId));
  }

  #onView({ planLimits }: ControlView): void {
    this.#isFailing = false;
    if (this.#joined?.mayAdmit()) this.#trouble = undefined;
    this.#plans = planLimitsOf(planLimits, plansOf(this.#parts.config));
  }

  #leaseEvents(): Required<Pick<FleetEvents, "onLeaseTaken" | "onFenced" | "onBeatFailed">> {
    const { log, metrics } = this.#parts;
    return {
      onLeaseTaken: () => {
        metrics.leaseTaken();
        this.#leaseLog.taken(this.#joined && (this.#trouble ?? stoodStill));
        this.#trouble = undefined;
      },
      onFenced: () => {
        metrics.fenced();
        this.#trouble = new Error("the other instances took this one for dead");
        log.warn("the other instances took this one for dead: it begins anew");
      },
      onBeatFailed: (err) => {
        this.#trouble = err;
        // One line for an outage, and not four a second.
        if (!this.#isFailing) log.warn({ err }, "a heartbeat of this instance failed: it is tried again");
        this.#isFailing = true;
      },
    };
  }

  /** The marks of the Redises in which others share limits now, or those that joined earlier. */
  #redisMarksOf(others: "all" | "earlier"): readonly string[] {
    if (!this.#joined) return [];
    const { ownId, leases } = this.#joined.members();
    const asked = others === "all" ? leases.filter(({ id }) => id !== ownId) : leasesBefore(leases, ownId);
    return asked.flatMap(({ limits }) => limits?.redisMark ?? []);
  }
}

function plansOf({ planLimits, planQuotas }: Config): PlanLimits {
  return { limits: planLimits, quotas: planQuotas };
}

const stoodStill = new Error(
  "no heartbeat was answered for 5 s: this process or its host stood still, or its clock was set",
);

function nudgeOf({ secrets, tls, log }: FleetInstanceParts): (addresses: readonly string[]) => void {
  const nudge = createNudge({
    token: createInstanceTokens(secrets).own,
    tls: () => tls?.current(),
    msMax: bounds.nudgeMsMax,
    onFailed: (address, cause) => log.debug({ address, cause }, "an instance could not be nudged"),
  });
  return nudge.send;
}

function eventsOf({ log, metrics, onRefused }: FleetInstanceParts): FleetEvents {
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
