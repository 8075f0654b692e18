import type { Team } from "../api/messages.ts";

/** The team's display name, or its id if it has none. */
export function teamName(team: Team): string {
  return team.displayName || team.id;
}

/** The name of the team's plan: "Free", or "Unknown" for one that is newer than this page. */
export function planName({ plan = "PLAN_UNSPECIFIED" }: Team): string {
  return planNames.get(plan) ?? "Unknown";
}

const planNames = new Map<Team["plan"], string>([
  ["PLAN_FREE", "Free"],
  ["PLAN_PRO", "Pro"],
  ["PLAN_TEAM", "Team"],
  ["PLAN_ENTERPRISE", "Enterprise"],
]);
