/**
 * The one decision about a key: the lease of the store, the key, the team, its quota, its limit.
 */

import type { Decide, Decision, KeyVerdict, KeyVerifier, Question } from "../auth/key-evidence.ts";
import type { Clock } from "../base/clock.ts";
import type { RecordSource } from "../cache/record-source.ts";
import { type KeyLimit, keyLogId, type LimitDecision, type TeamLimiter } from "../limit/limit-decision.ts";
import type { QuotaExceeded, QuotaSubject, Quotas } from "../quota/quota.ts";
import { fail, type Refusal, refuseFor, unavailable } from "../refusal/refusal.ts";
import type { PlanName, QuotaLimit } from "../settings/config.ts";
import type { TeamRecord } from "../teams/team-store.ts";
import type { CountUsage } from "../usage/pending-usage.ts";

export interface DecideParts {
  readonly clock: Clock;
  readonly verifier: KeyVerifier;
  readonly teams: RecordSource<TeamRecord>;
  readonly limiter: TeamLimiter;
  /** Requests a minute of the plan, now. */
  readonly limitOf: (plan: PlanName) => number;
  /** The quota of the plan, now; undefined: it has none. */
  readonly quotaOf: (plan: PlanName) => QuotaLimit | undefined;
  readonly quotas: Pick<Quotas, "reserve" | "known">;
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
 * There is no await between the last check of the key and the spending of its quotas and limits, so
 * nothing is spent for a key whose end this process knows. The lease is checked first, and again
 * after every wait: what was read meanwhile may be out of date.
 */
export function createDecide(parts: DecideParts): Decide<LimitDecision> {
  const { verifier, teams } = parts;
  return async (value, question) => {
    for (let tries = 0; tries < triesMax; tries += 1) {
      requireLease(parts);
      let verdict = verifier.peek(value) ?? (await verifier.load(value, question, question.guard));
      requireLease(parts);
      // A key that is refused needs no team, and so no further read of the store.
      if (verdict.kind !== "valid") return verdict;
      let team = teams.peek(verdict.teamId);
      if (team === undefined) {
        team = await teams.load(verdict.teamId);
        // The key may have ended while its team was read.
        verdict = verifier.peek(value) ?? (await verifier.load(value, question, question.guard));
        requireLease(parts);
        if (verdict.kind !== "valid") return verdict;
      }
      const decision = await spend(parts, verdict, team, { value, question });
      if (decision) return decision;
    }
    throw unavailable({ cause: new Error("a quota was never claimed") });
  };
}

/** More than anybody needs: the store is asked for what all that wait need. */
const triesMax = 20;

interface Asked {
  readonly value: string;
  readonly question: Question;
}

/**
 * Spends the quotas, then the limit, before its first await. Undefined: the store was asked for
 * more of a quota meanwhile, so all is to be decided anew.
 */
async function spend(
  parts: DecideParts,
  verdict: ValidVerdict,
  team: TeamRecord | null | undefined,
  { value, question }: Asked,
): Promise<Decided | undefined> {
  const { limiter, verifier } = parts;
  if (!team) throw fail("INTERNAL", { cause: `key ${verdict.keyId} names no team` });
  const limit = parts.limitOf(team.plan);
  const key = keyLimitOf(verdict);
  const { cost } = question;
  if (cost > limit) throw costTooHigh(`the plan's limit, ${limit}`);
  if (key !== undefined && cost > key.limit) throw costTooHigh(`the key's own limit, ${key.limit}`);
  const subjects = quotaSubjectsOf(parts, verdict, team);
  const quota = subjects.length > 0 && cost > 0 ? parts.quotas.reserve(subjects, cost) : undefined;
  if (quota instanceof Promise) return await quota.then(() => undefined);
  if (quota?.kind === "exceeded") {
    const rate = limiter.peek(team.id, limit, key);
    return decided(parts, verdict, team, { rate, cost, subjects, exceeded: quota });
  }
  let rate: LimitDecision;
  let now: KeyVerdict = verdict;
  let isAdmitted = false;
  try {
    const spent = limiter.spend(team.id, limit, cost, key);
    if (spent instanceof Promise) {
      rate = await spent;
      // Another process has counted, and the key may have ended meanwhile.
      now = verifier.peek(value) ?? (await verifier.load(value, question, question.guard));
      requireLease(parts);
    } else rate = spent;
    isAdmitted = now.kind === "valid" && rate.accepted;
  } finally {
    if (!isAdmitted) quota?.release();
  }
  return now.kind === "valid" ? decided(parts, now, team, { rate, cost, subjects }) : now;
}

/** The quotas that count the key's requests, that of its team first. */
function quotaSubjectsOf(
  { quotaOf, limitOf }: DecideParts,
  { firstKeyId, restrictions }: ValidVerdict,
  { id: teamId, plan }: TeamRecord,
): readonly QuotaSubject[] {
  const [ofTeam, ofKey] = [quotaOf(plan), restrictions?.quota];
  const requestsPerMinute = limitOf(plan);
  const subjects: QuotaSubject[] = [];
  if (ofTeam) subjects.push({ id: teamId, teamId, limit: ofTeam, requestsPerMinute });
  if (ofKey) subjects.push({ id: keyLogId(teamId, firstKeyId), teamId, limit: ofKey, requestsPerMinute });
  return subjects;
}

function keyLimitOf({ firstKeyId, restrictions }: ValidVerdict): KeyLimit | undefined {
  const limit = restrictions === null ? null : restrictions.requestsPerMinute;
  return limit === null ? undefined : { firstKeyId, limit };
}

function costTooHigh(most: string): Refusal {
  return fail("INVALID_ARGUMENT", { param: "cost", problem: `cost must be at most ${most}.` });
}

interface Spent {
  readonly rate: LimitDecision;
  readonly cost: number;
  readonly subjects: readonly QuotaSubject[];
  readonly exceeded?: QuotaExceeded;
}

function decided(
  { clock, limiter, keyUsed, usage, quotas }: DecideParts,
  verdict: ValidVerdict,
  { id: teamId, plan }: TeamRecord,
  { rate, cost, subjects, exceeded }: Spent,
): Decided {
  const { keyId, restrictions, end } = verdict;
  if (cost > 0) {
    const unixMs = clock.unixMs();
    // Also past the limit: before they revoke the key, its owners see that it is in use.
    keyUsed(keyId, unixMs);
    if (rate.accepted && !exceeded) usage.accepted(teamId, keyId, unixMs);
    else usage.limited(teamId, keyId, unixMs);
  }
  // Without a read. Of a quota that this instance knows nothing of, nothing is said.
  const known = subjects.map(quotas.known).filter((state) => state !== undefined);
  const facts = { keyId, teamId, plan, restrictions, end, rate, quotas: known };
  if (exceeded) return { kind: "quota_exceeded", ...facts, exceeded };
  if (!rate.accepted) return { kind: "limited", ...facts };
  const rateNow = () => limiter.peek(teamId, rate.limit, keyLimitOf(verdict));
  return { kind: "admitted", ...facts, rateNow };
}

function requireLease({ mayAdmit, whyNot }: DecideParts): void {
  if (!mayAdmit()) throw refuseFor("lease", whyNot?.());
}
