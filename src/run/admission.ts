import { readBearer } from "../auth/credential.ts";
import type { KeyVerdict, LookUpGuard, VerifyKey } from "../auth/key-evidence.ts";
import type { Principal } from "../auth/principal.ts";
import type { Clock } from "../clock.ts";
import type { PlanName } from "../config.ts";
import { fail, type Refusal, refusalFrom, unavailable } from "../error.ts";
import type { LimitDecision, Limiter } from "../limit/limiter.ts";
import { requireTeam, type TeamSource } from "../teams/find-team.ts";
import type { TeamRecord } from "../teams/team-store.ts";

/** A request to run an app, as far as it is judged before its body is read. */
export interface Applicant {
  readonly authorizations: readonly string[];
  readonly address: string;
}

/** What a listener grants to callers without a proven key. */
export interface AddressAllowanceView {
  readonly guard: LookUpGuard;
  /** What the address has left, for the headers; undefined where the listener has no such bound. */
  look(address: string): LimitDecision | undefined;
}

/** The numbers that an answer's rate-limit headers tell. */
export interface RateReport {
  readonly policy: "team" | "address";
  readonly decision: LimitDecision;
}

export type Admission =
  | {
      readonly kind: "admitted";
      readonly principal: Principal & { readonly kind: "api_key" };
      readonly team: TeamRecord;
      readonly rate: RateReport;
      /** The team's numbers now, without spending: for an answer that comes later. */
      rateNow(): RateReport;
    }
  | { readonly kind: "refused"; readonly refusal: Refusal; readonly rate: RateReport | undefined };

/**
 * The gate of every run: the key, then the team's limit. Both doors call it before they read the body, so they
 * can't disagree. It answers without a promise where everything it needs is in memory, and never throws.
 */
export type Admit = (applicant: Applicant, allowance: AddressAllowanceView) => Admission | Promise<Admission>;

export interface AdmissionParts {
  readonly clock: Clock;
  readonly verifyKey: VerifyKey;
  readonly teams: TeamSource;
  readonly limiter: Limiter;
  readonly planLimits: Readonly<Record<PlanName, number>>;
  readonly keyUsed: (keyId: string, unixMs: number) => void;
  /** Whether this process may admit at all: false once its hold on the store has lapsed. */
  readonly mayAdmit: () => boolean;
}

export function createAdmit(parts: AdmissionParts): Admit {
  return (applicant, allowance) => {
    try {
      const credential = readBearer(applicant.authorizations);
      if (credential.kind === "missing") throw fail("MISSING_API_KEY");
      if (credential.kind === "malformed") throw fail("MALFORMED_AUTHORIZATION");
      if (!parts.mayAdmit()) throw unavailable();
      const verdict = parts.verifyKey(credential.token, applicant, allowance.guard);
      if (!(verdict instanceof Promise)) {
        const team = verdict.kind === "valid" ? parts.teams.peek(verdict.teamId) : null;
        if (team !== undefined) return judge(parts, verdict, team);
      }
      return admitLater(parts, verdict, { applicant, allowance });
    } catch (thrown) {
      return refuse(refusalFrom(thrown), { applicant, allowance });
    }
  };
}

/** Who is refused before a team's limit was asked, and what its address may. */
interface Unproven {
  readonly applicant: Applicant;
  readonly allowance: AddressAllowanceView;
}

async function admitLater(
  parts: AdmissionParts,
  pending: KeyVerdict | Promise<KeyVerdict>,
  unproven: Unproven,
): Promise<Admission> {
  try {
    const verdict = await pending;
    const team = verdict.kind === "valid" ? await requireTeam(parts.teams, verdict.teamId) : null;
    // Asked again: the hold on the store may have lapsed while it was read.
    if (!parts.mayAdmit()) throw unavailable();
    return judge(parts, verdict, team);
  } catch (thrown) {
    return refuse(refusalFrom(thrown), unproven);
  }
}

/** The last step, without an await: what it sees of key, team and limit holds together. */
function judge(
  { clock, limiter, planLimits, keyUsed }: AdmissionParts,
  verdict: KeyVerdict,
  team: TeamRecord | null,
): Admission {
  if (verdict.kind === "invalid") throw fail("INVALID_API_KEY");
  if (verdict.kind === "revoked") throw revoked(verdict.revokeTimeMs);
  if (!team) throw fail("INTERNAL", { cause: `key ${verdict.keyId} names no team` });
  const limit = planLimits[team.plan];
  const decision = limiter.spend(team.id, limit);
  if (!decision.accepted)
    return { kind: "refused", refusal: limited(decision), rate: { policy: "team", decision } };
  keyUsed(verdict.keyId, clock.unixMs());
  return {
    kind: "admitted",
    principal: { kind: "api_key", keyId: verdict.keyId, teamId: team.id },
    team,
    rate: { policy: "team", decision },
    rateNow: () => ({ policy: "team", decision: limiter.look(team.id, limit) }),
  };
}

function refuse(refusal: Refusal, { applicant, allowance }: Unproven): Admission {
  const decision = allowance.look(applicant.address);
  return { kind: "refused", refusal, rate: decision && { policy: "address", decision } };
}

function revoked(revokeTimeMs: number): Refusal {
  return fail("REVOKED_API_KEY", { metadata: { revoke_time: new Date(revokeTimeMs).toISOString() } });
}

function limited(decision: LimitDecision): Refusal {
  const { limit, retryAfterMs } = decision;
  const metadata = {
    limit: String(limit),
    retry_after_s: String(Math.max(1, Math.ceil(retryAfterMs / 1000))),
  };
  return fail("RATE_LIMIT_EXCEEDED", { metadata, retryAfterMs });
}
