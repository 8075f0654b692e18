import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  type KeyService,
  VerifyKeyResponse_Verdict as Verdict,
  type VerifyKeyRequest,
  type VerifyKeyResponseSchema,
} from "#gen/keyrun/v1/key_service_pb.ts";
import type { Decide, Decision } from "../auth/decide.ts";
import { unguarded } from "../auth/key-evidence.ts";
import type { ServiceMethods } from "../auth/service-methods.ts";
import type { RecordSource } from "../cache/record-source.ts";
import { readLabel } from "../fields/plain-text.ts";
import type { LimitDecision } from "../limit/limiter.ts";
import { rateLimitMessage } from "../limit/rate-limit-message.ts";
import { fail } from "../refusal/refusal.ts";
import { requireTeam } from "../teams/find-team.ts";
import { planNumber } from "../teams/plan-message.ts";
import type { TeamRecord } from "../teams/team-store.ts";
import { keyMessage } from "./key-message.ts";
import type { Keyring } from "./keyring.ts";
import { createListKeys } from "./list-keys.ts";

const uuidForm = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** What KeyService needs. */
export interface KeyServiceParts {
  readonly keyring: Keyring;
  readonly teams: RecordSource<TeamRecord>;
  readonly decide: Decide<LimitDecision>;
  readonly keysPerTeamMax: number;
  readonly keyPrefix: string;
}

/** `keyrun.v1.KeyService`: manages and verifies the API keys of teams. */
export function createKeyService(
  parts: KeyServiceParts,
): Omit<ServiceMethods<typeof KeyService>, "watchKeys"> {
  const { keyring, teams } = parts;
  return {
    async createKey(request, { principal }) {
      const team = await requireTeam(teams, request.teamId);
      const label = readLabel(request.label, "label");
      const requestId = readRequestId(request.requestId);
      const { key, value } = await keyring.create({ teamId: team.id, label, requestId, by: principal });
      return { key: keyMessage(key), value };
    },
    listKeys: createListKeys(parts),
    async revokeKey(request, { principal }) {
      const team = await requireTeam(teams, request.teamId);
      const { keyId } = request;
      if (keyId === "") throw fail("INVALID_ARGUMENT", { param: "key_id", problem: "key_id is required." });
      return { key: keyMessage(await keyring.revoke({ teamId: team.id, keyId, by: principal })) };
    },
    verifyKey: (request) => verify(parts, request),
  };
}

type Verified = MessageInitShape<typeof VerifyKeyResponseSchema>;

/** Synchronous where the decision is. */
function verify(parts: KeyServiceParts, { value, cost = 1 }: VerifyKeyRequest): Verified | Promise<Verified> {
  if (value === "") throw fail("INVALID_ARGUMENT", { param: "value", problem: "value is required." });
  if (cost < 0) throw fail("INVALID_ARGUMENT", { param: "cost", problem: "cost must not be negative." });
  const decision = parts.decide(value, { cost, address: "", guard: unguarded });
  return decision instanceof Promise
    ? decision.then((decided) => verified(parts, decided))
    : verified(parts, decision);
}

function verified(parts: KeyServiceParts, decision: Decision<LimitDecision>): Verified | Promise<Verified> {
  if (decision.kind === "invalid") return { verdict: Verdict.INVALID };
  if (decision.kind === "revoked") return revoked(parts, decision);
  const { keyId, teamId } = decision;
  return {
    verdict: decision.kind === "admitted" ? Verdict.VALID : Verdict.RATE_LIMITED,
    keyId,
    teamId,
    plan: planNumber(decision.plan),
    rateLimit: rateLimitMessage(decision.rate),
  };
}

/**
 * The decision looks up no team for a revoked key, so the plan that the verdict names is looked up
 * here.
 */
async function revoked(
  { teams }: KeyServiceParts,
  { keyId, teamId }: { readonly keyId: string; readonly teamId: string },
): Promise<Verified> {
  const team = await teams.load(teamId);
  // The team was deleted a moment ago, and the key with it.
  if (!team) return { verdict: Verdict.INVALID };
  return { verdict: Verdict.REVOKED, keyId, teamId, plan: planNumber(team.plan) };
}

function readRequestId(value: string): string | null {
  const requestId = value.toLowerCase();
  if (requestId === "") return null;
  if (uuidForm.test(requestId)) return requestId;
  throw fail("INVALID_ARGUMENT", { param: "request_id", problem: "request_id must be a UUID, or empty." });
}
