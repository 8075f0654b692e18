import { Plan, type Team } from "#gen/keyrun/v1/team_pb.ts";

/** The team's display name, or its id if it has none. */
export function teamName(team: Team): string {
  return team.displayName || team.id;
}

/** The plan's name, such as "Free"; "Unknown" for a plan that is newer than this page. */
export function planName(plan: Plan): string {
  return planNames.get(plan) ?? "Unknown";
}

const planNames = new Map<Plan, string>([
  [Plan.FREE, "Free"],
  [Plan.PRO, "Pro"],
  [Plan.TEAM, "Team"],
  [Plan.ENTERPRISE, "Enterprise"],
]);
