/**
 * The admission of every run and every guarded request, whichever entry it came by: reads the
 * credential, asks `decide.ts`, and makes a refusal or a caller of what was decided.
 */

import {
  type CheckKey,
  type Decide,
  type Decision,
  type KeyEvidence,
  type LookUpGuard,
  verdictOf,
} from "../auth/key-evidence.ts";
import type { Anyone, KeyPrincipal } from "../auth/principal.ts";
import type { Clock } from "../base/clock.ts";
import type { RecordSource } from "../cache/record-source.ts";
import type { KeyEnd } from "../http/headers.ts";
import { readBearer, readKeyHeader } from "../http/request-head.ts";
import type { RequestNotes } from "../http/request-notes.ts";
import { type LimitDecision, stricterLimit } from "../limit/limit-decision.ts";
import type { RateReport } from "../limit/rate-limit-headers.ts";
import type { QuotaExceeded } from "../quota/quota.ts";
import { quotaBounds } from "../quota/quota-store.ts";
import { fail, type Refusal, refusalFrom } from "../refusal/refusal.ts";
import type { PlanName } from "../settings/config.ts";

/** What the admission reads of a request. Its body is not read yet. */
export interface Caller {
  readonly authorizations: readonly string[];
  /** Returns a header's value by its lower-case name, joined as by `headerOf`. */
  header(name: string): string | undefined;
  readonly address: string;
  /** Undefined if requests are not watched. */
  readonly notes?: RequestNotes | undefined;
  /** Set here once the secret of the key was right, also if the request is refused then. */
  teamId?: string | undefined;
}

/** What a listener grants to callers without a proven key. */
export interface AddressAllowanceView {
  readonly guard: LookUpGuard;
  /** What the address has left, for the headers; undefined where the listener has no such bound. */
  snapshot(address: string): LimitDecision | undefined;
}

/** How much this process has to do. */
export interface Load {
  /**
   * Whether a request of the address is refused because there is too much to do; undefined is an
   * internal service whose token was right. Ask it before anything that costs more than a refusal.
   */
  sheds(address: string | undefined): boolean;
}

/** What was decided about a run request. `rate` is for the headers of its answer. */
export type Admission =
  | {
      readonly kind: "admitted";
      readonly principal: KeyPrincipal;
      readonly plan: PlanName;
      readonly rate: RateReport;
      /** The team's numbers now, without spending: for an answer that comes later. */
      rateNow(): RateReport;
    }
  | {
      readonly kind: "refused";
      readonly refusal: Refusal;
      readonly rate: RateReport | undefined;
      /** Set if the key is proven, and its team's limit or its own refuses. */
      readonly principal?: KeyPrincipal;
    };

/**
 * The admission of every run: the key, then its team's limit and its own. Each entry calls it
 * before it reads the body, so they can't disagree. Never rejects.
 */
export type Admit = (caller: Caller, allowance: AddressAllowanceView) => Promise<Admission>;

export function createAdmit(
  decide: Decide<LimitDecision>,
  load: Load,
  /** The name of a second header for keys, if there is one. */
  keyHeader?: string,
): Admit {
  const readKey = createReadKey(keyHeader);
  return async (caller, allowance) => {
    try {
      if (load.sheds(caller.address)) throw fail("OVERLOADED");
      const { address } = caller;
      const question = { cost: 1, address, guard: allowance.guard };
      return admissionOf(await decide(readKey(caller), question), caller);
    } catch (thrown) {
      return refuse(refusalFrom(thrown), caller, allowance);
    }
  };
}

/** Where a request brings the key header, `Authorization` is not looked at. */
function createReadKey(keyHeader: string | undefined): (caller: Caller) => string {
  if (keyHeader === undefined) return readAuthorization;
  const name = keyHeader.toLowerCase();
  const problem = `The header ${keyHeader} can't be read. Send it once, with the API key alone.`;
  return (caller) => {
    const sent = caller.header(name);
    if (sent === undefined) return readAuthorization(caller);
    const credential = readKeyHeader(sent);
    if (credential.kind !== "bearer") throw fail("MALFORMED_AUTHORIZATION", { problem });
    return credential.token;
  };
}

function readAuthorization({ authorizations }: Caller): string {
  const credential = readBearer(authorizations);
  if (credential.kind === "missing") throw fail("MISSING_API_KEY");
  if (credential.kind === "malformed") throw fail("MALFORMED_AUTHORIZATION");
  return credential.token;
}

function admissionOf(decision: Decision<LimitDecision>, caller: Caller): Admission {
  if (decision.kind !== "invalid") caller.teamId = decision.teamId;
  switch (decision.kind) {
    case "invalid":
      throw fail("INVALID_API_KEY");
    case "revoked":
      throw revoked(decision.revokeTimeMs);
    case "expired":
      throw expired(decision.expireTimeMs);
    case "limited":
    case "quota_exceeded":
      return {
        kind: "refused",
        refusal: decision.kind === "limited" ? limited(decision.rate) : quotaExceeded(decision.exceeded),
        rate: teamRate(decision.rate, decision),
        principal: principalOf(decision),
      };
    case "admitted":
      return {
        kind: "admitted",
        principal: principalOf(decision),
        plan: decision.plan,
        rate: teamRate(decision.rate, decision),
        rateNow: () => teamRate(decision.rateNow(), decision),
      };
  }
}

function principalOf({ keyId, teamId, restrictions }: Omit<KeyPrincipal, "kind">): KeyPrincipal {
  return { kind: "api_key", keyId, teamId, restrictions };
}

function teamRate(
  decision: LimitDecision,
  {
    end,
    quotas = [],
    exceeded,
  }: Pick<RateReport, "quotas" | "exceeded"> & { readonly end: KeyEnd | undefined },
): RateReport {
  return { policy: "team", decision, quotas, exceeded, keyEnd: end };
}

/**
 * Refused before the team's limit was asked, so the headers say what the caller's address has left.
 */
function refuse(refusal: Refusal, { address }: Caller, allowance: AddressAllowanceView): Admission {
  const decision = allowance.snapshot(address);
  return { kind: "refused", refusal, rate: decision && { policy: "address", decision } };
}

function limited(decision: LimitDecision): Refusal {
  const strict = stricterLimit(decision);
  const { limit, retryAfterMs } = strict;
  const metadata = {
    subject: strict === decision ? "team" : "key",
    limit: String(limit),
    retry_after_s: String(Math.max(1, Math.ceil(retryAfterMs / 1000))),
  };
  return fail("RATE_LIMIT_EXCEEDED", { metadata, retryAfterMs });
}

function quotaExceeded({ state, retryAfterMs }: QuotaExceeded): Refusal {
  const { subject, period, resetTimeMs } = state;
  const limit = String(state.limit + state.granted);
  const reset_time = new Date(resetTimeMs).toISOString().replace(".000", "");
  const facts = { metadata: { subject, limit, period, reset_time }, retryAfterMs };
  if (retryAfterMs > quotaBounds.idleMs) return fail("QUOTA_EXCEEDED", facts);
  const waitS = Math.ceil(retryAfterMs / 1_000);
  const problem = `The ${subject} has used its ${limit} requests of this ${period}, or other instances of Keyrun hold the last of them. Try again in ${waitS} s.`;
  return fail("QUOTA_EXCEEDED", { ...facts, problem });
}

/** A caller of a method that takes no credential, and what its address has left. */
export interface AnyoneAdmission {
  readonly kind: "admitted";
  readonly principal: Anyone;
  /** Undefined where the listener has no bound for addresses. */
  readonly rate?: RateReport;
  /** The numbers now, without spending. */
  readonly rateNow?: () => RateReport;
}

/** Admits every caller. What the method looks up is charged to the caller's address. */
export function admitAnyone(
  { address }: Pick<Caller, "address">,
  { guard, snapshot }: AddressAllowanceView,
): AnyoneAdmission {
  const principal: Anyone = { kind: "anyone", address, guard };
  const decision = snapshot(address);
  if (!decision) return { kind: "admitted", principal };
  const rateNow = () => ({ policy: "address", decision: snapshot(address) ?? decision }) as const;
  return { kind: "admitted", principal, rate: { policy: "address", decision }, rateNow };
}

export function createCheckKey(keys: RecordSource<KeyEvidence>, clock: Pick<Clock, "unixMs">): CheckKey {
  return async (keyId) => {
    const evidence = await keys.load(keyId);
    const verdict = evidence && verdictOf(evidence, clock);
    if (verdict?.kind === "valid") return;
    if (verdict?.kind === "revoked") throw revoked(verdict.revokeTimeMs);
    if (verdict?.kind === "expired") throw expired(verdict.expireTimeMs);
    throw fail("INVALID_API_KEY");
  };
}

/** The refusal of a key that was revoked. Only for its owner. */
function revoked(revokeTimeMs: number): Refusal {
  return fail("REVOKED_API_KEY", { metadata: { revoke_time: new Date(revokeTimeMs).toISOString() } });
}

/** The refusal of a key whose time is over. Only for its owner. */
function expired(expireTimeMs: number): Refusal {
  return fail("EXPIRED_API_KEY", { metadata: { expire_time: new Date(expireTimeMs).toISOString() } });
}
