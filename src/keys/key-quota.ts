import type { RecordSource } from "../cache/record-source.ts";
import { keyLogId } from "../limit/limit-decision.ts";
import type { QuotaState, Quotas } from "../quota/quota.ts";
import type { PlanName } from "../settings/config.ts";
import type { TeamRecord } from "../teams/team-store.ts";
import type { KeyRecord } from "./key-store.ts";

/**
 * The state of the quota that the key shares with those that have its first key, as the store has
 * it; undefined where it has none.
 */
export type KeyQuota = (key: KeyRecord) => Promise<QuotaState | undefined>;

export function createKeyQuota({
  teams,
  limitOf,
  quotas,
}: {
  readonly teams: RecordSource<TeamRecord>;
  readonly limitOf: (plan: PlanName) => number;
  readonly quotas: Pick<Quotas, "state">;
}): KeyQuota {
  return async ({ id, teamId, firstKeyId, quota: limit, requestsPerMinute }) => {
    const team = limit && (await teams.load(teamId));
    if (!limit || !team) return undefined;
    return await quotas.state({
      id: keyLogId(teamId, firstKeyId ?? id),
      teamId,
      limit,
      requestsPerMinute: requestsPerMinute ?? limitOf(team.plan),
    });
  };
}
