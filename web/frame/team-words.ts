import { Plan, type Team } from "#gen/keyrun/v1/team_pb.ts";

/** What people call the team. */
export function teamName(team: Team): string {
  return team.displayName || team.id;
}

/** The plan's name as people read it: "Free". A plan newer than this page is named as such. */
export function planName(plan: Plan): string {
  return planNames.get(plan) ?? "Unknown";
}

const planNames = new Map<Plan, string>([
  [Plan.FREE, "Free"],
  [Plan.PRO, "Pro"],
  [Plan.TEAM, "Team"],
  [Plan.ENTERPRISE, "Enterprise"],
]);
