/**
 * The one decision about a key: the lease of the store, the key, the team, its quota, its limit.
 */

import type { Decide, Decision, KeyVerdict, KeyVerifier, Question } from "../auth/key-evidence.ts";
import type { Clock } from "../base/clock.ts";
import type { RecordSource } from "../cache/record-source.ts";
import { type KeyLimit, keyLogId, type LimitDecision, type TeamLimiter } from "../limit/limit-decision.ts";
import type { NamedQuota, QuotaExceeded, QuotaSubject, Quotas } from "../quota/quota.ts";
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
  return (value, question) => decideOnce(parts, { value, question, tries: 0 });
}

interface Asked {
  readonly value: string;
  readonly question: Question;
  /** How often it has waited for a claim of a quota. */
  readonly tries: number;
}

/** More than anybody needs: a claim has what all that wait for it need. */
const triesMax = 20;

async function decideOnce(parts: DecideParts, asked: Asked): Promise<Decided> {
  const { verifier, teams } = parts;
  const { value, question } = asked;
  requireLease(parts);
  const verdict = verifier.peek(value) ?? (await verifier.load(value, question, question.guard));
  requireLease(parts);
  // A key that is refused needs no team, and so no further read of the store.
  if (verdict.kind !== "valid") return verdict;
  const cached = teams.peek(verdict.teamId);
  if (cached !== undefined) return await spend(parts, verdict, cached, asked);
  const team = await teams.load(verdict.teamId);
  // The key may have ended while its team was read.
  const again = verifier.peek(value) ?? (await verifier.load(value, question, question.guard));
  requireLease(parts);
  return again.kind === "valid" ? await spend(parts, again, team, asked) : again;
}

/** Spends the quotas, then the limit, before its first await. */
async function spend(
  parts: DecideParts,
  verdict: ValidVerdict,
  team: TeamRecord | null | undefined,
  asked: Asked,
): Promise<Decided> {
  const { limiter, verifier } = parts;
  const { value, question } = asked;
  if (!team) throw fail("INTERNAL", { cause: `key ${verdict.keyId} names no team` });
  const limit = parts.limitOf(team.plan);
  const key = keyLimitOf(verdict);
  const { cost } = question;
  if (cost > limit) throw costTooHigh(`the plan's limit, ${limit}`);
  if (key !== undefined && cost > key.limit) throw costTooHigh(`the key's own limit, ${key.limit}`);
  const subjects = quotaSubjectsOf(parts, verdict, team);
  const quota = subjects.length > 0 && cost > 0 ? parts.quotas.reserve(subjects, cost) : undefined;
  if (quota instanceof Promise) {
    await quota;
    // The key may have ended meanwhile, or have another team's plan.
    if (asked.tries >= triesMax) throw unavailable({ cause: new Error("a quota was never claimed") });
    return await decideOnce(parts, { ...asked, tries: asked.tries + 1 });
  }
  if (quota?.kind === "exceeded") return exceeded(parts, verdict, team, { quota, subjects });
  let decision: Decided | undefined;
  try {
    const spent = limiter.spend(team.id, limit, cost, key);
    if (!(spent instanceof Promise)) {
      decision = decided(parts, verdict, team, { rate: spent, cost, subjects });
      return decision;
    }
    const rate = await spent;
    // Another process has counted, and the key may have ended meanwhile.
    const again = verifier.peek(value) ?? (await verifier.load(value, question, question.guard));
    requireLease(parts);
    decision = again.kind === "valid" ? decided(parts, again, team, { rate, cost, subjects }) : again;
    return decision;
  } finally {
    if (decision?.kind !== "admitted") quota?.release();
  }
}

const noQuotas: readonly NamedQuota[] = [];
const noSubjects: readonly QuotaSubject[] = [];

/** The quotas that count the key's requests, that of its team first. */
function quotaSubjectsOf(
  { quotaOf, limitOf }: DecideParts,
  { firstKeyId, restrictions }: ValidVerdict,
  { id: teamId, plan }: TeamRecord,
): readonly QuotaSubject[] {
  const [ofTeam, ofKey] = [quotaOf(plan), restrictions?.quota];
  if (ofTeam === undefined && !ofKey) return noSubjects;
  const requestsPerMinute = limitOf(plan);
  const subjects: QuotaSubject[] = [];
  if (ofTeam) subjects.push({ id: teamId, teamId, limit: ofTeam, requestsPerMinute });
  if (ofKey) subjects.push({ id: keyLogId(teamId, firstKeyId), teamId, limit: ofKey, requestsPerMinute });
  return subjects;
}

function exceeded(
  parts: DecideParts,
  verdict: ValidVerdict,
  { id: teamId, plan }: TeamRecord,
  { quota, subjects }: { readonly quota: QuotaExceeded; readonly subjects: readonly QuotaSubject[] },
): Decided {
  const { clock, limiter, limitOf, keyUsed, usage } = parts;
  const { keyId, restrictions, end } = verdict;
  const unixMs = clock.unixMs();
  keyUsed(keyId, unixMs);
  usage.limited(teamId, keyId, unixMs);
  return {
    kind: "quota_exceeded",
    keyId,
    teamId,
    plan,
    restrictions,
    end,
    rate: limiter.peek(teamId, limitOf(plan), keyLimitOf(verdict)),
    quotas: knownQuotas(parts, subjects),
    exceeded: { subject: whose(subjects[quota.place]), state: quota.state },
    retryAfterMs: quota.retryAfterMs,
  };
}

/** Without a read. Of a quota that this instance knows nothing of, nothing is said. */
function knownQuotas({ quotas }: DecideParts, subjects: readonly QuotaSubject[]): readonly NamedQuota[] {
  const known: NamedQuota[] = [];
  for (const subject of subjects) {
    const state = quotas.known(subject);
    if (state) known.push({ subject: whose(subject), state });
  }
  return known;
}

function whose(subject: QuotaSubject | undefined): NamedQuota["subject"] {
  return subject?.id === subject?.teamId ? "team" : "key";
}

function keyLimitOf({ firstKeyId, restrictions }: ValidVerdict): KeyLimit | undefined {
  const limit = restrictions === null ? null : restrictions.requestsPerMinute;
  return limit === null ? undefined : { firstKeyId, limit };
}

function costTooHigh(most: string): Refusal {
  return fail("INVALID_ARGUMENT", { param: "cost", problem: `cost must be at most ${most}.` });
}

function decided(
  parts: DecideParts,
  verdict: ValidVerdict,
  { id: teamId, plan }: TeamRecord,
  { rate, cost, subjects }: Spent,
): Decided {
  const { clock, limiter, keyUsed, usage } = parts;
  const { keyId, restrictions, end } = verdict;
  if (cost > 0) {
    const unixMs = clock.unixMs();
    // Also past the limit: before they revoke the key, its owners see that it is in use.
    keyUsed(keyId, unixMs);
    if (rate.accepted) usage.accepted(teamId, keyId, unixMs);
    else usage.limited(teamId, keyId, unixMs);
  }
  const quotas = subjects.length === 0 ? noQuotas : knownQuotas(parts, subjects);
  if (!rate.accepted) return { kind: "limited", keyId, teamId, plan, restrictions, end, rate, quotas };
  const rateNow = () => limiter.peek(teamId, rate.limit, keyLimitOf(verdict));
  return { kind: "admitted", keyId, teamId, plan, restrictions, end, rate, quotas, rateNow };
}

interface Spent {
  readonly rate: LimitDecision;
  readonly cost: number;
  readonly subjects: readonly QuotaSubject[];
}

function requireLease({ mayAdmit, whyNot }: DecideParts): void {
  if (!mayAdmit()) throw refuseFor("lease", whyNot?.());
}
