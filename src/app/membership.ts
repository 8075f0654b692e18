/** How this process stands to others on the same store, whether it is alone or in a fleet. */

import type { AppRecord } from "../apps/app-store.ts";
import type { KeyEvidence } from "../auth/key-evidence.ts";
import type { ControlChange } from "../fleet/control-store.ts";
import type { Fleet } from "../fleet/fleet.ts";
import { createSecurityState, raiseFloors } from "../fleet/security-state.ts";
import type { Log } from "../log/log.ts";
import type { ServiceTokenEvidence } from "../service-tokens/service-tokens.ts";
import type { Config, PlanName, QuotaLimit } from "../settings/config.ts";
import type { SessionRecord } from "../sign-in/sign-in-store.ts";
import type { Stores } from "../store/stores.ts";
import type { TeamRecord } from "../teams/team-store.ts";
import type { Caches } from "./caches.ts";
import type { FleetInstance, JoinParts } from "./fleet.ts";
import { createLeaseLog } from "./lease-log.ts";

/** How this process stands to others that may serve the same store. */
export interface Membership {
  /** Whether this process may admit requests now. Cheap. */
  readonly mayAdmit: () => boolean;
  /** Why it may not, for the log; undefined where it may, or nobody knows. */
  readonly whyNot: () => unknown;
  /** Logs if it may no more. Call it regularly. */
  readonly checkLease: () => void;
  /** Requests a minute of the plan. */
  readonly limitOf: (plan: PlanName) => number;
  /** The quota of the plan; undefined where it has none. */
  readonly quotaOf: (plan: PlanName) => QuotaLimit | undefined;
  /** The one function for changes that may take a right away. */
  readonly changeSecurityState: ChangeCached;
  /** Undefined: this process serves alone. */
  readonly fleet: Fleet | undefined;
  /** From now on the listener is called with the changes of all instances of the fleet. */
  listen(listener: ChangeListener): void;
}

export interface ChangeListener {
  /** Called once the floors of the changes are raised. Must not throw. */
  apply(changes: readonly ControlChange[]): void;
  /** Changes may have been missed. Must not throw. */
  missed(): void;
}

type ChangeCached = ReturnType<
  typeof createSecurityState<{
    key: KeyEvidence;
    team: TeamRecord;
    app: AppRecord;
    session: SessionRecord;
    "service-token": ServiceTokenEvidence;
  }>
>;

export interface MembershipParts extends Pick<JoinParts, "limit"> {
  readonly config: Config;
  readonly log: Log;
  readonly stores: Stores;
  readonly caches: Caches;
  /** Undefined: this process serves alone. */
  readonly instance: FleetInstance | undefined;
}

/**
 * Joins the fleet that serves the store, if the settings ask for one. Throws StartRefused if this
 * process could not serve with it.
 */
export async function createMembership(parts: MembershipParts): Promise<Membership> {
  const { instance, limit } = parts;
  const { floors } = parts.caches;
  const listeners: ChangeListener[] = [];
  const fleet = await instance?.join({
    limit,
    apply(changes) {
      raiseFloors(floors, changes);
      for (const listener of listeners) listener.apply(changes);
    },
    clear() {
      for (const floored of Object.values(floors)) floored.clear();
      for (const listener of listeners) listener.missed();
    },
  });
  return {
    ...(instance && fleet ? inFleet(instance, fleet) : alone(parts)),
    changeSecurityState: createSecurityState({ floors, ...(fleet && { fleet }) }),
    fleet,
    listen: (listener) => void listeners.push(listener),
  };
}

type Admitting = Pick<Membership, "mayAdmit" | "whyNot" | "checkLease" | "limitOf" | "quotaOf">;

function inFleet(instance: FleetInstance, { mayAdmit }: Fleet): Admitting {
  return {
    mayAdmit,
    whyNot: () => instance.whyNot(),
    checkLease: () => instance.checkLease(),
    limitOf: (plan) => instance.limitOf(plan),
    quotaOf: (plan) => instance.quotaOf(plan),
  };
}

function alone({ config, log, stores: { guard } }: MembershipParts): Admitting {
  const mayAdmit = guard.isValid;
  const whyNot = () => guard.whyNot?.();
  return {
    mayAdmit,
    whyNot,
    checkLease: createLeaseLog({ mayAdmit, whyNot, log }).check,
    limitOf: (plan) => config.planLimits[plan],
    quotaOf: (plan) => config.planQuotas[plan],
  };
}
