import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  type KeyService,
  VerifyKeyResponse_Verdict as Verdict,
  type VerifyKeyRequest,
  type VerifyKeyResponseSchema,
} from "#gen/keyrun/v1/key_service_pb.ts";
import type { Decide, Decision } from "../auth/decide.ts";
import { unguarded } from "../auth/key-evidence.ts";
import { mayRunApp } from "../auth/key-restrictions.ts";
import type { ServiceMethods } from "../auth/service-methods.ts";
import type { Clock } from "../base/clock.ts";
import { readLabel } from "../base/plain-text.ts";
import type { RecordSource } from "../cache/record-source.ts";
import type { LimitDecision } from "../limit/limiter.ts";
import { rateLimitMessage } from "../limit/rate-limit-message.ts";
import { stricterLimit } from "../limit/stricter-limit.ts";
import { fail } from "../refusal/refusal.ts";
import { requireTeam } from "../teams/find-team.ts";
import { planNumber } from "../teams/plan-message.ts";
import type { TeamRecord } from "../teams/team-store.ts";
import { readNewExpireTime } from "./key-expiry.ts";
import { keyMessage } from "./key-message.ts";
import type { KeyRecord } from "./key-store.ts";
import type { Keyring } from "./keyring.ts";
import { createListKeys } from "./list-keys.ts";
import type { ReadRestrictions } from "./read-restrictions.ts";
import { readRequestId } from "./request-id.ts";

/** What KeyService needs. */
export interface KeyServiceParts {
  readonly clock: Pick<Clock, "unixMs">;
  readonly keyring: Keyring;
  readonly teams: RecordSource<TeamRecord>;
  readonly decide: Decide<LimitDecision>;
  readonly keysPerTeamMax: number;
  readonly keyPrefix: string;
  readonly readRestrictions: ReadRestrictions;
  /** Called once the revocation is final, also with a key that was revoked before. */
  readonly onRevoked: (key: KeyRecord) => void;
}

/** `keyrun.v1.KeyService`: manages and verifies the API keys of teams. */
export function createKeyService(
  parts: KeyServiceParts,
): Omit<
  ServiceMethods<typeof KeyService>,
  "watchKeys" | "updateKey" | "rotateKey" | "revokeLeakedKey" | "getUsage"
> {
  const { keyring, teams } = parts;
  return {
    async createKey(request, { principal }) {
      const team = await requireTeam(teams, request.teamId);
      const label = readLabel(request.label, "label");
      const requestId = readRequestId(request.requestId);
      const restrictions = await parts.readRestrictions(request, team);
      const expireTimeMs = readNewExpireTime(request.expireTime, parts.clock.unixMs());
      const order = { teamId: team.id, label, requestId, expireTimeMs, by: principal, restrictions };
      const { key, value } = await keyring.create(order);
      return { key: keyMessage(key), value };
    },
    listKeys: createListKeys(parts),
    async revokeKey(request, { principal }) {
      const team = await requireTeam(teams, request.teamId);
      const { keyId } = request;
      if (keyId === "") throw fail("INVALID_ARGUMENT", { param: "key_id", problem: "key_id is required." });
      const key = await keyring.revoke({ teamId: team.id, keyId, by: principal });
      parts.onRevoked(key);
      return { key: keyMessage(key) };
    },
    verifyKey: (request) => verify(parts, request),
  };
}

type Verified = MessageInitShape<typeof VerifyKeyResponseSchema>;

/** Synchronous where the decision is. */
function verify(parts: KeyServiceParts, request: VerifyKeyRequest): Verified | Promise<Verified> {
  const { value, cost = 1, appId } = request;
  if (value === "") throw fail("INVALID_ARGUMENT", { param: "value", problem: "value is required." });
  if (cost < 0) throw fail("INVALID_ARGUMENT", { param: "cost", problem: "cost must not be negative." });
  const decision = parts.decide(value, { cost, address: "", guard: unguarded, appId });
  return decision instanceof Promise
    ? decision.then((decided) => verified(parts, decided, appId))
    : verified(parts, decision, appId);
}

function verified(
  parts: KeyServiceParts,
  decision: Decision<LimitDecision>,
  appId: string,
): Verified | Promise<Verified> {
  if (decision.kind === "invalid") return { verdict: Verdict.INVALID };
  if (decision.kind === "revoked") return ended(parts, Verdict.REVOKED, decision);
  if (decision.kind === "expired") return ended(parts, Verdict.EXPIRED, decision);
  const { keyId, teamId, restrictions } = decision;
  // As for a run, the limits come before the app.
  const verdict = mayRunApp(restrictions, appId) ? Verdict.VALID : Verdict.APP_NOT_ALLOWED;
  return {
    verdict: decision.kind === "admitted" ? verdict : Verdict.RATE_LIMITED,
    keyId,
    teamId,
    plan: planNumber(decision.plan),
    rateLimit: rateLimitMessage(stricterLimit(decision.rate)),
  };
}

/**
 * The decision looks up no team for a key that has ended, so the plan that the verdict names is
 * looked up here.
 */
async function ended(
  { teams }: KeyServiceParts,
  verdict: Verdict,
  { keyId, teamId }: { readonly keyId: string; readonly teamId: string },
): Promise<Verified> {
  const team = await teams.load(teamId);
  // The team was deleted a moment ago, and the key with it.
  if (!team) return { verdict: Verdict.INVALID };
  return { verdict, keyId, teamId, plan: planNumber(team.plan) };
}
