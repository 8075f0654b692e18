/**
 * The one decision about a key: the hold on the store, the key, the team, the limit, in this
 * order.
 */

import type { Decide, Decision, KeyVerdict, Question, VerifyKey } from "../auth/key-evidence.ts";
import type { Clock } from "../base/clock.ts";
import type { RecordSource } from "../cache/record-source.ts";
import type { KeyLimit, LimitDecision, TeamLimiter } from "../limit/limit-decision.ts";
import { fail, type Refusal, refuseFor } from "../refusal/refusal.ts";
import type { PlanName } from "../settings/config.ts";
import type { TeamRecord } from "../teams/team-store.ts";
import type { CountUsage } from "../usage/held-usage.ts";

export interface DecideParts {
  readonly clock: Clock;
  readonly verifyKey: VerifyKey;
  readonly teams: RecordSource<TeamRecord>;
  readonly limiter: TeamLimiter;
  /** Requests a minute of the plan, now. */
  readonly limitOf: (plan: PlanName) => number;
  /** Notes that the key was used; off the request's path. */
  readonly keyUsed: (keyId: string, unixMs: number) => void;
  readonly usage: Pick<CountUsage, "accepted" | "limited">;
  /** Whether this process may admit at all: false once its hold on the store has lapsed. */
  readonly mayAdmit: () => boolean;
  /** Why not, for the log, as far as known. */
  readonly whyNot?: () => unknown;
}

type Decided = Decision<LimitDecision>;
type ValidVerdict = Extract<KeyVerdict, { kind: "valid" }>;

/**
 * Makes the one decision about a key. Runs and `VerifyKey` both use it, so they can't disagree. The
 * hold on the store is checked first, and again after every wait: what was read meanwhile may be
 * out of date.
 */
export function createDecide(parts: DecideParts): Decide<LimitDecision> {
  return (value, question) => {
    requireHold(parts);
    const verdict = parts.verifyKey(value, question, question.guard);
    if (verdict instanceof Promise) return decideLater(parts, verdict, { value, question });
    if (verdict.kind !== "valid") return verdict;
    const team = parts.teams.peek(verdict.teamId);
    if (team === undefined) return decideLater(parts, verdict, { value, question });
    return decideNow(parts, verdict, team, { value, question });
  };
}

interface Asked {
  readonly value: string;
  readonly question: Question;
}

async function decideLater(
  parts: DecideParts,
  pending: KeyVerdict | Promise<KeyVerdict>,
  asked: Asked,
): Promise<Decided> {
  const verdict = await pending;
  // A key that is refused needs no team, and so no further read of the store.
  const team = verdict.kind === "valid" ? await parts.teams.load(verdict.teamId) : undefined;
  requireHold(parts);
  return verdict.kind === "valid" ? decideNow(parts, verdict, team, asked) : verdict;
}

/** There is no await in here, so key, team and limit are those of one moment. */
function decideNow(
  parts: DecideParts,
  verdict: ValidVerdict,
  team: TeamRecord | null | undefined,
  asked: Asked,
): Decided | Promise<Decided> {
  if (!team) throw fail("INTERNAL", { cause: `key ${verdict.keyId} names no team` });
  const limit = parts.limitOf(team.plan);
  const key = keyLimitOf(verdict);
  const { cost } = asked.question;
  if (cost > limit) throw costTooHigh(`the plan's limit, ${limit}`);
  if (key !== undefined && cost > key.limit) throw costTooHigh(`the key's own limit, ${key.limit}`);
  const rate = parts.limiter.spend(team.id, limit, cost, key);
  return rate instanceof Promise
    ? spentLater(parts, rate, team, asked)
    : spent(parts, verdict, team, { rate, cost });
}

function keyLimitOf({ firstKeyId, restrictions }: ValidVerdict): KeyLimit | undefined {
  const limit = restrictions === null ? null : restrictions.requestsPerMinute;
  return limit === null ? undefined : { firstKeyId, limit };
}

function costTooHigh(most: string): Refusal {
  return fail("INVALID_ARGUMENT", { param: "cost", problem: `cost must be at most ${most}.` });
}

/**
 * The limit was counted by another process. The key may have ended meanwhile, so it is verified
 * again.
 */
async function spentLater(
  parts: DecideParts,
  pending: Promise<LimitDecision>,
  team: TeamRecord,
  { value, question }: Asked,
): Promise<Decided> {
  const rate = await pending;
  const again = parts.verifyKey(value, question, question.guard);
  const verdict = again instanceof Promise ? await again : again;
  requireHold(parts);
  if (verdict.kind !== "valid") return verdict;
  return spent(parts, verdict, team, { rate, cost: question.cost });
}

function spent(
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
  if (!rate.accepted) return { kind: "limited", keyId, teamId, plan, restrictions, end, rate };
  const rateNow = () => limiter.look(teamId, rate.limit, keyLimitOf(verdict));
  return { kind: "admitted", keyId, teamId, plan, restrictions, end, rate, rateNow };
}

function requireHold({ mayAdmit, whyNot }: DecideParts): void {
  if (!mayAdmit()) throw refuseFor("lease", whyNot?.());
}
