import type { PlanJson } from "#gen/keyrun/v1/team_pb.ts";
import type { PlanName } from "../settings/config.ts";

const messageNames: Readonly<Record<PlanName, PlanJson>> = {
  free: "PLAN_FREE",
  pro: "PLAN_PRO",
  team: "PLAN_TEAM",
  enterprise: "PLAN_ENTERPRISE",
};

/** The plan as messages name it. */
export function planMessage(name: PlanName): PlanJson {
  return messageNames[name];
}

/** The plan as people name it; "-" if a message has none. */
export function planName(plan: PlanJson | undefined): string {
  return Object.entries(messageNames).find(([, name]) => name === plan)?.[0] ?? "-";
}
