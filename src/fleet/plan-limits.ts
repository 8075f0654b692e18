/**
 * One limit and one quota for each plan over the whole fleet: those of the instance that joined
 * last.
 */

import { unavailable } from "../refusal/refusal.ts";
import { type PlanName, type PlanQuotas, planNames, type QuotaLimit } from "../settings/config.ts";
import type { BroughtPlanLimits, ControlStore } from "./control-store.ts";
import type { Fleet } from "./fleet.ts";

export interface PlanLimits {
  /** Requests a minute of each plan. */
  readonly limits: Readonly<Record<PlanName, number>>;
  readonly quotas: PlanQuotas;
}

/**
 * What holds for the whole fleet. A plan that the brought limits don't name has the limit of `own`,
 * and one that the brought quotas don't name has no quota.
 */
export function planLimitsOf(brought: BroughtPlanLimits | undefined, own: PlanLimits): PlanLimits {
  const limitOf = (plan: PlanName) => brought?.limits[plan] ?? own.limits[plan];
  return {
    limits: {
      free: limitOf("free"),
      pro: limitOf("pro"),
      team: limitOf("team"),
      enterprise: limitOf("enterprise"),
    },
    quotas: brought?.quotas ?? own.quotas,
  };
}

/**
 * Makes the limits and quotas of this instance, which has just joined, those of the whole fleet.
 * Resolves once no instance can admit by a higher one than is brought now. They stay when the
 * instance leaves: otherwise those of an older one would come back, without a barrier where they
 * are lower. Rejects with the error of the store.
 */
export async function bringPlanLimits(
  control: Pick<ControlStore, "bringPlanLimits">,
  fleet: Pick<Fleet, "announce" | "members">,
  plans: PlanLimits,
): Promise<void> {
  const { ownId, leases } = fleet.members();
  const order = leases.find(({ id }) => id === ownId)?.order;
  if (order === undefined)
    throw unavailable({ cause: new Error("this instance was taken out as it joined") });
  const before = await control.bringPlanLimits({ order, ...plans });
  const isLowered = (plan: PlanName) =>
    plans.limits[plan] < (before?.limits[plan] ?? 0) ||
    isQuotaLowered(before?.quotas[plan], plans.quotas[plan]);
  if (before && planNames.some(isLowered))
    await fleet.announce([{ kind: "plan-limits", id: "", version: 0 }], { wait: true });
}

/** Of another period is no less: what an instance holds of the one before must go. */
function isQuotaLowered(before: QuotaLimit | undefined, now: QuotaLimit | undefined): boolean {
  if (now === undefined) return false;
  return before === undefined || before.period !== now.period || now.requests < before.requests;
}
