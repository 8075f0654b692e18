/**
 * `KeyService`: creating, listing, revoking and verifying keys. Rotation, changes, watches and
 * leak reports have files of their own, because they take more than a screen.
 */

import { createHash } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  type KeyService,
  VerifyKeyResponse_Verdict as Verdict,
  type VerifyKeyRequest,
  type VerifyKeyResponseSchema,
} from "#gen/keyrun/v1/key_service_pb.ts";
import { type Decide, type Decision, mayRunApp, unguarded } from "../auth/key-evidence.ts";
import type { ServiceMethods } from "../auth/principal.ts";
import { type Clock, ownTurn } from "../base/clock.ts";
import { readKeyQuery, readLabel, readRequestId, searchForm } from "../base/fields.ts";
import { cutPage, readPage, readPlace, writePlace } from "../base/page.ts";
import { bounds } from "../bounds.ts";
import type { RecordSource } from "../cache/record-source.ts";
import { keyLogId, type LimitDecision, stricterLimit } from "../limit/limit-decision.ts";
import { rateLimitMessage } from "../limit/rate-limit-headers.ts";
import { mayHoldSecret } from "../log/redaction.ts";
import type { QuotaState, Quotas } from "../quota/quota.ts";
import { quotaMessage } from "../quota/quota-message.ts";
import { fail } from "../refusal/refusal.ts";
import type { PlanName } from "../settings/config.ts";
import { requireTeam } from "../teams/find-team.ts";
import { planNumber } from "../teams/team-service.ts";
import type { TeamRecord } from "../teams/team-store.ts";
import { readNewExpireTime } from "./key-life.ts";
import { keyMessage } from "./key-message.ts";
import type { KeyCursor, KeyMatch, KeyRecord } from "./key-store.ts";
import type { Keyring } from "./keyring.ts";
import type { ReadRestrictions } from "./read-restrictions.ts";

/** What KeyService needs. */
export interface KeyServiceParts {
  readonly clock: Pick<Clock, "unixMs">;
  readonly keyring: Keyring;
  readonly teams: RecordSource<TeamRecord>;
  readonly decide: Decide<LimitDecision>;
  readonly keysPerTeamMax: number;
  readonly keyPrefix: string;
  readonly readRestrictions: ReadRestrictions;
  /** Requests a minute of the plan, now. */
  readonly limitOf: (plan: PlanName) => number;
  readonly quotas: Pick<Quotas, "state">;
  /** Called once the revocation is final, also with a key that was revoked before. */
  readonly onRevoked: (key: KeyRecord) => void;
}

/** `keyrun.v1.KeyService`: manages and verifies the API keys of teams. */
export function createKeyService(parts: KeyServiceParts) {
  const { keyring, teams } = parts;
  return {
    async createKey(request, call) {
      const team = await requireTeam(teams, request.teamId);
      const facts = {
        teamId: team.id,
        label: readLabel(request.label, "label"),
        requestId: readRequestId(request.requestId),
        ...(await parts.readRestrictions(request, team)),
        expireTimeMs: readNewExpireTime(request.expireTime, parts.clock.unixMs()),
      };
      const { key, value } = await keyring.create(facts, call);
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
  } satisfies Partial<ServiceMethods<typeof KeyService>>;
}

type Verified = MessageInitShape<typeof VerifyKeyResponseSchema>;

async function verify(parts: KeyServiceParts, request: VerifyKeyRequest): Promise<Verified> {
  const { value, cost = 1, appId } = request;
  if (value === "") throw fail("INVALID_ARGUMENT", { param: "value", problem: "value is required." });
  if (cost < 0) throw fail("INVALID_ARGUMENT", { param: "cost", problem: "cost must not be negative." });
  const decision = await parts.decide(value, { cost, address: "", guard: unguarded, appId });
  return verified(parts, decision, appId);
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
  const quota = tighterQuota(decision);
  return {
    verdict: { admitted: verdict, limited: Verdict.RATE_LIMITED, quota_exceeded: Verdict.QUOTA_EXCEEDED }[
      decision.kind
    ],
    keyId,
    teamId,
    plan: planNumber(decision.plan),
    rateLimit: rateLimitMessage(stricterLimit(decision.rate)),
    ...(quota && { quota: quotaMessage(quota) }),
  };
}

/**
 * The state of the quota that refuses, else of the one with fewer left, and of two alike the key's.
 */
function tighterQuota(
  decision: Extract<Decision<LimitDecision>, { kind: "admitted" | "limited" | "quota_exceeded" }>,
): QuotaState | undefined {
  if (decision.kind === "quota_exceeded") return decision.exceeded.state;
  const [first, second] = decision.quotas;
  return first && second && second.left <= first.left ? second : first;
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

/**
 * What the text of a search fits; undefined if it is empty and so fits every key. People paste
 * whole keys, so nothing that may be a key's secret is part of the result: it goes to the store and
 * into page tokens. Throws INVALID_ARGUMENT, without the text.
 */
function keyMatchOf(query: string, keyPrefix: string): KeyMatch | undefined {
  const text = readKeyQuery(query, "query").normalize("NFKC");
  if (text === "") return undefined;
  const pasted = fullValue.exec(text)?.groups?.id;
  if (pasted !== undefined) return { idStart: pasted.toLowerCase() };
  if (mayHoldSecret(text)) return {};
  const idStart = idStartOf(text.toLowerCase(), `${keyPrefix}_`);
  return {
    labelPart: searchForm(text),
    ...(idStart !== undefined && { idStart }),
    ...(ellipsis.test(text) && { redactedPart: text.replace(ellipsis, "…") }),
  };
}

/** A full value with any prefix, or as much of it as follows the id. */
const fullValue = /_(?<id>[0-9a-hjkmnp-tv-z]{24})\./i;
const ellipsis = /…|\.\.\./;

function idStartOf(text: string, prefix: string): string | undefined {
  const start = text.startsWith(prefix) ? text.slice(prefix.length) : text;
  return /^[0-9a-hjkmnp-tv-z]{1,24}$/.test(start) ? start : undefined;
}

type ListKeysParts = Pick<
  KeyServiceParts,
  "teams" | "keysPerTeamMax" | "keyPrefix" | "limitOf" | "quotas"
> & {
  readonly keyring: Pick<Keyring, "list" | "placeOf" | "countActive" | "countRevoked">;
};

/** `KeyService.ListKeys`. */
export function createListKeys(parts: ListKeysParts): ServiceMethods<typeof KeyService>["listKeys"] {
  const { keyring, teams, keysPerTeamMax, keyPrefix, limitOf, quotas } = parts;
  return async ({ teamId, query, showRevoked, onlyRevoked, ...request }) => {
    const team = await requireTeam(teams, teamId);
    const match = keyMatchOf(query, keyPrefix);
    const includeRevoked = onlyRevoked ? ("only" as const) : showRevoked;
    const scope = scopeOf(team.id, includeRevoked, match);
    const page = readPage(request, scope);
    const list = {
      teamId: team.id,
      limit: page.limit + 1,
      ...(page.after !== undefined && { after: readCursor(page.after) }),
      includeRevoked,
    };
    // To count the keys of a large team takes milliseconds.
    await ownTurn();
    // First, because it marks keys whose expiry has come.
    const activeKeyCount = await keyring.countActive(team.id);
    const [{ found, stoppedAt }, revokedKeyCount] = await Promise.all([
      search(keyring, list, match),
      keyring.countRevoked(team.id, bounds.revokedKeysCountedMax),
    ]);
    const { items, nextPageToken } = cutPage(
      found,
      page,
      scope,
      writeCursor,
      stoppedAt && writeCursor(stoppedAt),
    );
    return {
      keys: await Promise.all(items.map((key) => messageWithQuota(key, quotas, limitOf(team.plan)))),
      nextPageToken,
      activeKeyCount,
      activeKeyCountMax: keysPerTeamMax,
      revokedKeyCount,
    };
  };
}

/** With what is used of its quota, which costs a read of the store, unless the key has ended. */
async function messageWithQuota(key: KeyRecord, quotas: Pick<Quotas, "state">, requestsPerMinute: number) {
  const { id, teamId, firstKeyId, quota: limit, revokeTimeMs, expiredTimeMs } = key;
  if (!limit || revokeTimeMs !== null || expiredTimeMs !== null) return keyMessage(key);
  const subject = { id: keyLogId(teamId, firstKeyId ?? id), teamId, limit, requestsPerMinute };
  return { ...keyMessage(key), quota: quotaMessage(await quotas.state(subject)) };
}

/**
 * Searches step by step, because a step of the embedded store stops the whole process. After
 * `keySearchStepsMax` of them it stops, and says where: the next page goes on from there.
 */
async function search(
  keyring: ListKeysParts["keyring"],
  { limit, ...query }: Parameters<Keyring["list"]>[0],
  match: KeyMatch | undefined,
): Promise<{ found: KeyRecord[]; stoppedAt?: KeyCursor }> {
  if (!match) return { found: await keyring.list({ ...query, limit }) };
  const found: KeyRecord[] = [];
  let { after } = query;
  for (let step = 0; step < bounds.keySearchStepsMax; step++) {
    if (step > 0) await ownTurn();
    const from = { ...query, ...(after && { after }) };
    const until = await keyring.placeOf(bounds.keysSearchedAtOnce, from);
    const rest = limit - found.length;
    found.push(...(await keyring.list({ ...from, limit: rest, ...(until && { until }), match })));
    if (found.length >= limit || !until) return { found };
    after = until;
  }
  return { found, ...(after && { stoppedAt: after }) };
}

/** A token is bound to what the query means. It holds a digest, and so never the query's text. */
function scopeOf(teamId: string, includeRevoked: boolean | "only", match: KeyMatch | undefined): string {
  const scope = `keys:${teamId}:${includeRevoked}`;
  if (!match) return scope;
  const { labelPart, idStart, redactedPart } = match;
  const meaning = JSON.stringify([labelPart ?? null, idStart ?? null, redactedPart ?? null]);
  return `${scope}:${createHash("sha256").update(meaning).digest("base64url").slice(0, 22)}`;
}

function writeCursor({ createTimeMs, id }: KeyCursor): string {
  return writePlace({ timeMs: createTimeMs, id });
}

function readCursor(after: string): KeyCursor {
  const { timeMs, id } = readPlace(after);
  return { createTimeMs: timeMs, id };
}
