/** The one decision about a key: the lease of the store, the key, the team, the limit. */

import type { Decide, Decision, KeyVerdict, KeyVerifier, Question } from "../auth/key-evidence.ts";
import type { Clock } from "../base/clock.ts";
import type { RecordSource } from "../cache/record-source.ts";
import type { KeyLimit, LimitDecision, TeamLimiter } from "../limit/limit-decision.ts";
import { fail, type Refusal, refuseFor } from "../refusal/refusal.ts";
import type { PlanName } from "../settings/config.ts";
import type { TeamRecord } from "../teams/team-store.ts";
import type { CountUsage } from "../usage/pending-usage.ts";

export interface DecideParts {
  readonly clock: Clock;
  readonly verifier: KeyVerifier;
  readonly teams: RecordSource<TeamRecord>;
  readonly limiter: TeamLimiter;
  /** Requests a minute of the plan, now. */
  readonly limitOf: (plan: PlanName) => number;
  /** Notes that the key was used; off the request's path. */
  readonly keyUsed: (keyId: string, unixMs: number) => void;
  readonly usage: Pick<CountUsage, "accepted" | "limited">;
  /** Whether this process may admit at all: false once its lease of the store has lapsed. */
  readonly mayAdmit: () => boolean;
  /** Why not, for the log, as far as known. */
  readonly whyNot?: () => unknown;
}

type Decided = Decision<LimitDecision>;
type ValidVerdict = Extract<KeyVerdict, { kind: "valid" }>;

/**
 * Makes the one decision about a key. Runs and `VerifyKey` both use it, so they can't disagree.
 * There is no await between the last check of the key and the spending of the limit, so nothing is
 * spent for a key whose end this process knows. The lease is checked first, and again after every
 * wait: what was read meanwhile may be out of date.
 */
export function createDecide(parts: DecideParts): Decide<LimitDecision> {
  const { verifier, teams } = parts;
  return async (value, question) => {
    requireLease(parts);
    const verdict = verifier.peek(value) ?? (await verifier.load(value, question, question.guard));
    requireLease(parts);
    // A key that is refused needs no team, and so no further read of the store.
    if (verdict.kind !== "valid") return verdict;
    const cached = teams.peek(verdict.teamId);
    if (cached !== undefined) return await spend(parts, verdict, cached, { value, question });
    const team = await teams.load(verdict.teamId);
    // The key may have ended while its team was read.
    const again = verifier.peek(value) ?? (await verifier.load(value, question, question.guard));
    requireLease(parts);
    return again.kind === "valid" ? await spend(parts, again, team, { value, question }) : again;
  };
}

interface Asked {
  readonly value: string;
  readonly question: Question;
}

/** Spends the limit before its first await. */
async function spend(
  parts: DecideParts,
  verdict: ValidVerdict,
  team: TeamRecord | null | undefined,
  { value, question }: Asked,
): Promise<Decided> {
  const { limiter, verifier } = parts;
  if (!team) throw fail("INTERNAL", { cause: `key ${verdict.keyId} names no team` });
  const limit = parts.limitOf(team.plan);
  const key = keyLimitOf(verdict);
  const { cost } = question;
  if (cost > limit) throw costTooHigh(`the plan's limit, ${limit}`);
  if (key !== undefined && cost > key.limit) throw costTooHigh(`the key's own limit, ${key.limit}`);
  const spent = limiter.spend(team.id, limit, cost, key);
  if (!(spent instanceof Promise)) return decided(parts, verdict, team, { rate: spent, cost });
  const rate = await spent;
  // Another process has counted, and the key may have ended meanwhile.
  const again = verifier.peek(value) ?? (await verifier.load(value, question, question.guard));
  requireLease(parts);
  return again.kind === "valid" ? decided(parts, again, team, { rate, cost }) : again;
}

function keyLimitOf({ firstKeyId, restrictions }: ValidVerdict): KeyLimit | undefined {
  const limit = restrictions === null ? null : restrictions.requestsPerMinute;
  return limit === null ? undefined : { firstKeyId, limit };
}

function costTooHigh(most: string): Refusal {
  return fail("INVALID_ARGUMENT", { param: "cost", problem: `cost must be at most ${most}.` });
}

function decided(
  { clock, limiter, keyUsed, usage }: DecideParts,
  verdict: ValidVerdict,
  { id: teamId, plan }: TeamRecord,
  { rate, cost }: { readonly rate: LimitDecision; readonly cost: number },
): Decided {
  const { keyId, restrictions, end } = verdict;
  if (cost > 0) {
    const unixMs = clock.unixMs();
    // Also past the limit: before they revoke the key, its owners see that it is in use.
    keyUsed(keyId, unixMs);
    if (rate.accepted) usage.accepted(teamId, keyId, unixMs);
    else usage.limited(teamId, keyId, unixMs);
  }
  if (!rate.accepted) return { kind: "limited", keyId, teamId, plan, restrictions, end, rate, quotas: [] };
  const rateNow = () => limiter.peek(teamId, rate.limit, keyLimitOf(verdict));
  return { kind: "admitted", keyId, teamId, plan, restrictions, end, rate, quotas: [], rateNow };
}

function requireLease({ mayAdmit, whyNot }: DecideParts): void {
  if (!mayAdmit()) throw refuseFor("lease", whyNot?.());
}
