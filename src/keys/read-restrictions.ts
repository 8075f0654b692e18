import type { CreateKeyRequest } from "#gen/keyrun/v1/key_service_pb.ts";
import type { AppRecord } from "../apps/app-store.ts";
import { isResourceId } from "../base/fields.ts";
import type { RecordSource } from "../cache/record-source.ts";
import { quotaPeriodOf, readRequests } from "../quota/quota-message.ts";
import { cutText, fail } from "../refusal/refusal.ts";
import type { PlanName, QuotaLimit } from "../settings/config.ts";
import type { TeamRecord } from "../teams/team-store.ts";
import type { KeyRecord } from "./key-store.ts";

/** Reads what a new key of the team is restricted to. */
export type ReadRestrictions = (
  request: Pick<CreateKeyRequest, "appIds" | "requestsPerMinute" | "quota">,
  team: TeamRecord,
) => Promise<Pick<KeyRecord, "appIds" | "requestsPerMinute" | "quota">>;

/** The apps that one key may be restricted to. */
export const restrictedAppsMax = 100;

/**
 * Throws INVALID_ARGUMENT that names the field: where there are too many apps, where the team may
 * not run one of them, in the same words as for one that does not exist, or where the number of
 * requests is not from 1 to the plan's, or where the quota is not one. Apps that are named twice
 * count once.
 */
export function createReadRestrictions({
  apps,
  limitOf,
}: {
  readonly apps: RecordSource<AppRecord>;
  /** Requests a minute of the plan, now. */
  readonly limitOf: (plan: PlanName) => number;
}): ReadRestrictions {
  const mayRun = async (appId: string, teamId: string) => {
    const app = isResourceId(appId) ? await apps.load(appId) : undefined;
    return app !== undefined && (app.teamIds.length === 0 || app.teamIds.includes(teamId));
  };

  return async (request, team) => {
    const appIds = [...new Set(request.appIds)];
    if (appIds.length > restrictedAppsMax) {
      throw wrong("app_ids", `app_ids must name at most ${restrictedAppsMax} apps.`);
    }
    const { requestsPerMinute = null } = request;
    const limit = limitOf(team.plan);
    if (requestsPerMinute !== null && (requestsPerMinute < 1 || requestsPerMinute > limit)) {
      throw wrong("requests_per_minute", `requests_per_minute must be from 1 to the plan's limit, ${limit}.`);
    }
    const known = await Promise.all(appIds.map((appId) => mayRun(appId, team.id)));
    const unknown = appIds.find((_, n) => !known[n]);
    if (unknown !== undefined) {
      const named = cutText(unknown, appIdBytesMax);
      throw wrong("app_ids", `app_ids: team \`${team.id}\` has no app \`${named}\`.`);
    }
    return { appIds, requestsPerMinute, quota: readQuota(request.quota) };
  };
}

function readQuota(quota: CreateKeyRequest["quota"]): QuotaLimit | null {
  if (!quota) return null;
  const requests = readRequests(quota.requests, "quota.requests");
  const period = quotaPeriodOf(quota.period);
  if (!period) throw wrong("quota.period", "quota.period must be QUOTA_PERIOD_DAY or QUOTA_PERIOD_MONTH.");
  return { requests, period };
}

/** How much of an app's id a refusal repeats: as much as an id may have. */
const appIdBytesMax = 63;

function wrong(param: string, problem: string) {
  return fail("INVALID_ARGUMENT", { param, problem });
}
