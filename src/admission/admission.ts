import { readBearer } from "../auth/credential.ts";
import type { Decide, Decision } from "../auth/decide.ts";
import type { LookUpGuard } from "../auth/key-evidence.ts";
import type { Principal } from "../auth/principal.ts";
import type { LimitDecision } from "../limit/limiter.ts";
import type { RateReport } from "../limit/rate-limit-headers.ts";
import { fail, type Refusal, refusalFrom } from "../refusal/refusal.ts";
import { revoked } from "./check-key.ts";

/** The part of a request to run an app that is judged before its body is read. */
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

/** What was decided about a run request. `rate` is for the headers of its answer. */
export type Admission =
  | {
      readonly kind: "admitted";
      readonly principal: Principal & { readonly kind: "api_key" };
      readonly rate: RateReport;
      /** The team's numbers now, without spending: for an answer that comes later. */
      rateNow(): RateReport;
    }
  | { readonly kind: "refused"; readonly refusal: Refusal; readonly rate: RateReport | undefined };

/**
 * The admission of every run: the key, then the team's limit. Each entry calls it before it reads
 * the body, so they can't disagree. Synchronous when everything is in memory, and never throws.
 */
export type Admit = (applicant: Applicant, allowance: AddressAllowanceView) => Admission | Promise<Admission>;

export function createAdmit(decide: Decide<LimitDecision>): Admit {
  return (applicant, allowance) => {
    try {
      const credential = readBearer(applicant.authorizations);
      if (credential.kind === "missing") throw fail("MISSING_API_KEY");
      if (credential.kind === "malformed") throw fail("MALFORMED_AUTHORIZATION");
      const { address } = applicant;
      const decision = decide(credential.token, { cost: 1, address, guard: allowance.guard });
      return decision instanceof Promise ? admitLater(decision, applicant, allowance) : admissionOf(decision);
    } catch (thrown) {
      return refuse(refusalFrom(thrown), applicant, allowance);
    }
  };
}

async function admitLater(
  decision: Promise<Decision<LimitDecision>>,
  applicant: Applicant,
  allowance: AddressAllowanceView,
): Promise<Admission> {
  try {
    return admissionOf(await decision);
  } catch (thrown) {
    return refuse(refusalFrom(thrown), applicant, allowance);
  }
}

function admissionOf(decision: Decision<LimitDecision>): Admission {
  switch (decision.kind) {
    case "invalid":
      throw fail("INVALID_API_KEY");
    case "revoked":
      throw revoked(decision.revokeTimeMs);
    case "limited":
      return { kind: "refused", refusal: limited(decision.rate), rate: teamRate(decision.rate) };
    case "admitted":
      return {
        kind: "admitted",
        principal: { kind: "api_key", keyId: decision.keyId, teamId: decision.teamId },
        rate: teamRate(decision.rate),
        rateNow: () => teamRate(decision.rateNow()),
      };
  }
}

function teamRate(decision: LimitDecision): RateReport {
  return { policy: "team", decision };
}

/**
 * Refused before the team's limit was asked, so the headers say what the caller's address has left.
 */
function refuse(refusal: Refusal, { address }: Applicant, allowance: AddressAllowanceView): Admission {
  const decision = allowance.look(address);
  return { kind: "refused", refusal, rate: decision && { policy: "address", decision } };
}

function limited(decision: LimitDecision): Refusal {
  const { limit, retryAfterMs } = decision;
  const metadata = {
    limit: String(limit),
    retry_after_s: String(Math.max(1, Math.ceil(retryAfterMs / 1000))),
  };
  return fail("RATE_LIMIT_EXCEEDED", { metadata, retryAfterMs });
}
