import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  type KeyService,
  VerifyKeyResponse_Verdict as Verdict,
  type VerifyKeyResponseSchema,
} from "#gen/keyrun/v1/key_service_pb.ts";
import { type KeyVerdict, unguarded, type VerifyKey } from "../auth/key-evidence.ts";
import type { Clock } from "../clock.ts";
import type { PlanName } from "../config.ts";
import { fail, unavailable } from "../error.ts";
import { cutPage, readPage } from "../fields/page.ts";
import { readLabel } from "../fields/plain-text.ts";
import type { Limiter } from "../limit/limiter.ts";
import { rateLimitMessage } from "../limit/rate-limit-message.ts";
import type { ServiceMethods } from "../service-methods.ts";
import { requireTeam, type TeamSource } from "../teams/find-team.ts";
import { planNumber } from "../teams/plan-message.ts";
import type { TeamRecord } from "../teams/team-store.ts";
import { keyMessage } from "./key-message.ts";
import type { KeyCursor, KeyRecord } from "./key-store.ts";
import type { Keyring } from "./keyring.ts";

const uuidForm = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** What KeyService needs. */
export interface KeyServiceParts {
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly verifyKey: VerifyKey;
  readonly teams: TeamSource;
  readonly limiter: Limiter;
  readonly planLimits: Readonly<Record<PlanName, number>>;
  readonly keysPerTeamMax: number;
  /** Notes that the key was used now; off the request's path. */
  readonly keyUsed: (keyId: string, unixMs: number) => void;
  /** Whether this process may say that a key is good: false once its hold on the store has lapsed. */
  readonly mayAdmit: () => boolean;
}

/** `keyrun.v1.KeyService`: manages and verifies the API keys of teams. */
export function createKeyService(parts: KeyServiceParts): ServiceMethods<typeof KeyService> {
  const { keyring, teams, keysPerTeamMax } = parts;
  return {
    async createKey(request, { principal }) {
      const team = await requireTeam(teams, request.teamId);
      const label = readLabel(request.label, "label");
      const requestId = readRequestId(request.requestId);
      const { key, value } = await keyring.create({ teamId: team.id, label, requestId, by: principal });
      return { key: keyMessage(key), value };
    },
    async listKeys(request) {
      const team = await requireTeam(teams, request.teamId);
      const scope = `keys:${team.id}:${request.showRevoked}`;
      const { limit, after } = readPage(request, scope);
      const [found, activeKeyCount] = await Promise.all([
        keyring.list({
          teamId: team.id,
          limit: limit + 1,
          ...(after !== undefined && { after: readCursor(after) }),
          includeRevoked: request.showRevoked,
        }),
        keyring.countActive(team.id),
      ]);
      const { items, nextPageToken } = cutPage(found, { limit }, scope, writeCursor);
      return {
        keys: items.map(keyMessage),
        nextPageToken,
        activeKeyCount,
        activeKeyCountMax: keysPerTeamMax,
      };
    },
    async revokeKey(request, { principal }) {
      const team = await requireTeam(teams, request.teamId);
      const { keyId } = request;
      if (keyId === "") throw fail("INVALID_ARGUMENT", { param: "key_id", problem: "key_id is required." });
      return { key: keyMessage(await keyring.revoke({ teamId: team.id, keyId, by: principal })) };
    },
    verifyKey: (request) => verify(parts, request.value, request.cost ?? 1),
  };
}

/** Without a promise where all that it takes is in memory. */
function verify(parts: KeyServiceParts, value: string, cost: number): Verified | Promise<Verified> {
  if (value === "") throw fail("INVALID_ARGUMENT", { param: "value", problem: "value is required." });
  if (cost < 0) throw fail("INVALID_ARGUMENT", { param: "cost", problem: "cost must not be negative." });
  requireHold(parts);
  const found = parts.verifyKey(value, { address: "" }, unguarded);
  if (!(found instanceof Promise)) {
    if (found.kind === "invalid") return { verdict: Verdict.INVALID };
    const team = parts.teams.peek(found.teamId);
    if (team) return judge(parts, found, { team, cost });
  }
  return verifyLater(parts, found, cost);
}

type Verified = MessageInitShape<typeof VerifyKeyResponseSchema>;

async function verifyLater(
  parts: KeyServiceParts,
  pending: KeyVerdict | Promise<KeyVerdict>,
  cost: number,
): Promise<Verified> {
  const found = await pending;
  if (found.kind === "invalid") return { verdict: Verdict.INVALID };
  const team = await requireTeam(parts.teams, found.teamId);
  // Asked again: what was read since may be a predecessor's truth.
  requireHold(parts);
  return judge(parts, found, { team, cost });
}

/** The last step, without an await: what it sees of key, team and limit holds together. */
function judge(
  parts: KeyServiceParts,
  found: Exclude<KeyVerdict, { kind: "invalid" }>,
  { team, cost }: { team: TeamRecord; cost: number },
): Verified {
  const { keyId, teamId } = found;
  const named = { keyId, teamId, plan: planNumber(team.plan) };
  if (found.kind === "revoked") return { verdict: Verdict.REVOKED, ...named };

  const limit = parts.planLimits[team.plan];
  if (cost > limit) {
    const problem = `cost must be at most the plan's limit, ${limit}.`;
    throw fail("INVALID_ARGUMENT", { param: "cost", problem });
  }
  const decision = cost === 0 ? parts.limiter.look(teamId, limit) : parts.limiter.spend(teamId, limit, cost);
  const rateLimit = rateLimitMessage(decision);
  if (!decision.accepted) return { verdict: Verdict.RATE_LIMITED, ...named, rateLimit };
  if (cost > 0) parts.keyUsed(keyId, parts.clock.unixMs());
  return { verdict: Verdict.VALID, ...named, rateLimit };
}

function requireHold({ mayAdmit }: KeyServiceParts): void {
  if (!mayAdmit()) throw unavailable();
}

function readRequestId(value: string): string | null {
  const requestId = value.toLowerCase();
  if (requestId === "") return null;
  if (uuidForm.test(requestId)) return requestId;
  throw fail("INVALID_ARGUMENT", { param: "request_id", problem: "request_id must be a UUID, or empty." });
}

function writeCursor(key: KeyRecord): string {
  return `${key.createTimeMs}/${key.id}`;
}

function readCursor(after: string): KeyCursor {
  const [time = "", id = ""] = after.split("/");
  return { createTimeMs: Number(time), id };
}
