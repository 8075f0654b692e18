/** One limit for each plan over the whole fleet: those of the instance that joined last. */

import { unavailable } from "../refusal/refusal.ts";
import { type PlanName, planNames } from "../settings/config.ts";
import type { BroughtPlanLimits, ControlStore } from "./control-store.ts";
import type { Fleet } from "./fleet.ts";

/** Requests a minute of each plan. */
export type PlanLimits = Readonly<Record<PlanName, number>>;

/** The limits that hold for the whole fleet. A plan that they don't name has the limit of `own`. */
export function planLimitsOf(brought: BroughtPlanLimits | undefined, own: PlanLimits): PlanLimits {
  const limitOf = (plan: PlanName) => brought?.limits[plan] ?? own[plan];
  return {
    free: limitOf("free"),
    pro: limitOf("pro"),
    team: limitOf("team"),
    enterprise: limitOf("enterprise"),
  };
}

/**
 * Makes the limits of this instance, which has just joined, those of the whole fleet. Resolves once
 * no instance can admit by a higher limit than one that is lower now. They stay when the instance
 * leaves: otherwise those of an older one would come back, without a barrier where they are lower.
 * Rejects with the error of the store.
 */
export async function bringPlanLimits(
  control: Pick<ControlStore, "bringPlanLimits">,
  fleet: Pick<Fleet, "announce" | "members">,
  limits: PlanLimits,
): Promise<void> {
  const { ownId, leases } = fleet.members();
  const order = leases.find(({ id }) => id === ownId)?.order;
  if (order === undefined)
    throw unavailable({ cause: new Error("this instance was taken out as it joined") });
  const before = await control.bringPlanLimits({ order, limits });
  const isLowered = planNames.some((plan) => limits[plan] < (before?.limits[plan] ?? limits[plan]));
  if (isLowered) await fleet.announce([{ kind: "plan-limits", id: "", version: 0 }], { wait: true });
}
