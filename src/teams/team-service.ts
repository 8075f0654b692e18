import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type MemberSchema, Plan, type Team, type TeamSchema, TeamState } from "#gen/keyrun/v1/team_pb.ts";
import type { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import type { ServiceMethods } from "../auth/principal.ts";
import type { Clock } from "../base/clock.ts";
import { readDisplayName, readEmail, readRequestId, readResourceId } from "../base/fields.ts";
import { cutPage, readPage } from "../base/page.ts";
import type { RecordSource } from "../cache/record-source.ts";
import { type ChangeSecurityState, changeOf, grantOf, type StoredChange } from "../fleet/security-state.ts";
import type { TeamLimiter } from "../limit/limit-decision.ts";
import { rateLimitMessage } from "../limit/rate-limit-headers.ts";
import type { QuotaSubject, Quotas } from "../quota/quota.ts";
import { quotaMessage, readRequests } from "../quota/quota-message.ts";
import { fail } from "../refusal/refusal.ts";
import { type PlanName, planNames, type QuotaLimit } from "../settings/config.ts";
import { createDeleteTeam, type DeleteTeamParts } from "./delete-team.ts";
import { noSuchTeam, requireLasting, requireTeam, whileTeamsStay } from "./find-team.ts";
import type { MemberRecord, PreviewStore, TeamRecord } from "./team-store.ts";

/** `keyrun.v1.TeamService`: teams, their members, their limit, and who has preview access. */
export function createTeamService(parts: TeamServiceParts): ServiceMethods<typeof TeamService> {
  return { ...teamMethods(parts), ...memberMethods(parts), ...previewMethods(parts) };
}

export interface TeamServiceParts extends DeleteTeamParts {
  readonly clock: Clock;
  readonly preview: PreviewStore;
  readonly teams: RecordSource<TeamRecord>;
  readonly limiter: TeamLimiter;
  /** Requests a minute of the plan, now. */
  readonly limitOf: (plan: PlanName) => number;
  /** The quota of the plan, now; undefined where it has none. */
  readonly quotaOf: (plan: PlanName) => QuotaLimit | undefined;
  readonly quotas: Pick<Quotas, "state" | "grant">;
  /** For a grant that brings none of its own. */
  readonly newRequestId: () => string;
  /** Frees an e-mail: the next person who proves that it is theirs gets it. */
  readonly users: { release(email: string): Promise<void> };
  readonly changeSecurityState: DeleteTeamParts["changeSecurityState"] &
    ChangeSecurityState<"preview", StoredChange>;
}

function teamMethods(parts: TeamServiceParts) {
  const { clock, store, teams, limiter, limitOf, changeSecurityState } = parts;
  const deletion = createDeleteTeam(parts);
  return {
    async createTeam({ team: given }) {
      const id = readResourceId(given?.id ?? "", "team.id");
      const displayName = readDisplayName(given?.displayName ?? "", "team.display_name") || id;
      const plan = given && given.plan !== 0 ? readPlan(given) : "free";
      const exists = () => fail("TEAM_EXISTS", { param: "team.id", metadata: { team_id: id } });
      // Known at once, also where the team's deletion would take a while to wait for.
      if (await teams.load(id)) throw exists();
      const created = await deletion.clearIdFor(id, () =>
        changeSecurityState(
          "team",
          () => store.insert({ id, displayName, plan, createTimeMs: clock.unixMs() }),
          grantOf,
        ),
      );
      if (!created) throw exists();
      return { team: teamMessage(created) };
    },
    async getTeam({ teamId }) {
      return { team: teamMessage(await requireTeam(teams, teamId)) };
    },
    async listTeams(request) {
      const page = readPage(request, "teams");
      const found = await store.list({ ...page, limit: page.limit + 1 });
      const { items, nextPageToken } = cutPage(found, page, "teams", (team) => team.id);
      return { teams: items.map(teamMessage), nextPageToken };
    },
    async updateTeam({ team: given, updateMask }) {
      if (!given?.id) throw fail("INVALID_ARGUMENT", { param: "team.id", problem: "team.id is required." });
      const change = readChange(given, updateMask?.paths ?? []);
      // A larger plan takes nothing away from what the store holds. But other instances may still
      // act on one that is larger yet, as an earlier change never came through to them.
      const taking = change.plan ? changeOf : grantOf;
      const updated = await changeSecurityState("team", () => store.update(given.id, change), taking);
      if (!updated) throw noSuchTeam(given.id, "team.id");
      return { team: teamMessage(updated) };
    },
    async deleteTeam({ teamId }) {
      if (teamId === "") throw fail("INVALID_ARGUMENT", { param: "team_id", problem: missingIdWords });
      await deletion.delete(teamId);
      return {};
    },
    async getRateLimit({ teamId }) {
      const team = await requireTeam(teams, teamId);
      const quota = quotaSubjectOf(parts, team);
      const rate = await limiter.spend(team.id, limitOf(team.plan), 0);
      return {
        rateLimit: rateLimitMessage(rate),
        ...(quota && { quota: quotaMessage(await parts.quotas.state(quota)) }),
      };
    },
    async grantRequests(request) {
      const team = await requireLasting(teams, request.teamId);
      const requests = readRequests(request.requests, "requests");
      const requestId = readRequestId(request.requestId) ?? parts.newRequestId();
      const quota = quotaSubjectOf(parts, team);
      if (!quota) throw fail("TEAM_HAS_NO_QUOTA", { metadata: { team_id: team.id } });
      return { quota: quotaMessage(await parts.quotas.grant(quota, { requests, requestId })) };
    },
  } satisfies Partial<ServiceMethods<typeof TeamService>>;
}

/** Undefined where the team's plan has no quota. */
function quotaSubjectOf(
  { quotaOf, limitOf }: Pick<TeamServiceParts, "quotaOf" | "limitOf">,
  { id, plan }: TeamRecord,
): QuotaSubject | undefined {
  const limit = quotaOf(plan);
  return limit && { id, teamId: id, limit, requestsPerMinute: limitOf(plan) };
}

function memberMethods({ clock, members, teams, changeSecurityState }: TeamServiceParts) {
  const removeMember = (teamId: string, email: string) =>
    changeSecurityState("member", () => members.remove(teamId, email), { id: `${teamId}/${email}` });
  return {
    async addMember({ teamId, email }) {
      const team = await requireTeam(teams, teamId);
      const address = readEmail(email, "email");
      const createTimeMs = clock.unixMs();
      const member = await whileTeamsStay(
        teams,
        { teamIds: [team.id] },
        {
          write: () => members.add({ teamId: team.id, email: address, createTimeMs }),
          // A member who was there before the write has another time, and stays.
          undo: async (added) =>
            added.createTimeMs === createTimeMs && (await removeMember(team.id, address)),
        },
      );
      return { member: memberMessage(member) };
    },
    async removeMember({ teamId, email }) {
      const team = await requireTeam(teams, teamId);
      const address = readEmail(email, "email");
      await removeMember(team.id, address);
      return {};
    },
    async listMembers(request) {
      const team = await requireTeam(teams, request.teamId);
      const scope = `members:${team.id}`;
      const page = readPage(request, scope);
      const found = await members.list({ teamId: team.id, ...page, limit: page.limit + 1 });
      const { items, nextPageToken } = cutPage(found, page, scope, (member) => member.email);
      return { members: items.map(memberMessage), nextPageToken };
    },
  } satisfies Partial<ServiceMethods<typeof TeamService>>;
}

function previewMethods({ preview, users, changeSecurityState }: TeamServiceParts) {
  return {
    async setPreviewAccess({ email, granted }) {
      const address = readEmail(email, "email");
      await changeSecurityState(
        "preview",
        async () => {
          await preview.set(address, granted);
          if (!granted) await users.release(address);
        },
        { id: address },
      );
      return {};
    },
    async getPreviewAccess({ email }) {
      return { granted: await preview.has(readEmail(email, "email")) };
    },
    async listPreviewAccess(request) {
      const page = readPage(request, "preview");
      const found = await preview.list({ ...page, limit: page.limit + 1 });
      const { items, nextPageToken } = cutPage(found, page, "preview", (email) => email);
      return { emails: items, nextPageToken };
    },
  } satisfies Partial<ServiceMethods<typeof TeamService>>;
}

const missingIdWords = "team_id is required: name the team.";

function readPlan(given: Team): PlanName {
  const plan = planName(given.plan);
  if (plan) return plan;
  throw fail("INVALID_ARGUMENT", {
    param: "team.plan",
    problem: "team.plan must be PLAN_FREE, PLAN_PRO, PLAN_TEAM or PLAN_ENTERPRISE.",
  });
}

function readChange(given: Team, paths: readonly string[]) {
  const known = ["display_name", "plan"];
  if (paths.length === 0 || paths.some((path) => !known.includes(path))) {
    throw fail("INVALID_ARGUMENT", {
      param: "update_mask",
      problem: "update_mask must name what to change: display_name, plan, or both.",
    });
  }
  return {
    ...(paths.includes("display_name") && {
      displayName: readDisplayName(given.displayName, "team.display_name") || given.id,
    }),
    ...(paths.includes("plan") && { plan: readPlan(given) }),
  };
}

function memberMessage({ email, createTimeMs }: MemberRecord): MessageInitShape<typeof MemberSchema> {
  return { email, createTime: timestampFromMs(createTimeMs) };
}

/** A stored team as callers see it. */
export function teamMessage(team: TeamRecord): MessageInitShape<typeof TeamSchema> {
  const { id, displayName, createTimeMs } = team;
  return {
    id,
    displayName,
    plan: planNumber(team.plan),
    createTime: timestampFromMs(createTimeMs),
    state: team.state === "active" ? TeamState.ACTIVE : TeamState.ENDING,
  };
}

const planNumbers: Record<PlanName, Plan> = {
  free: Plan.FREE,
  pro: Plan.PRO,
  team: Plan.TEAM,
  enterprise: Plan.ENTERPRISE,
};

/** The plan's number on the wire. */
export function planNumber(plan: PlanName): Plan {
  return planNumbers[plan];
}

/** The plan of this number; undefined where it is unspecified or unknown. */
function planName(number: Plan): PlanName | undefined {
  return planNames.find((name) => planNumbers[name] === number);
}
