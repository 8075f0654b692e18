import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { type PlanName, planNames } from "../settings/config.ts";

const numbers: Record<PlanName, Plan> = {
  free: Plan.FREE,
  pro: Plan.PRO,
  team: Plan.TEAM,
  enterprise: Plan.ENTERPRISE,
};

/** The plan's number on the wire. */
export function planNumber(plan: PlanName): Plan {
  return numbers[plan];
}

/** The plan of this number; undefined where it is unspecified or unknown. */
export function planName(number: Plan): PlanName | undefined {
  return planNames.find((name) => numbers[name] === number);
}
