/** Why a sign-in at the issuer failed: for the person, for the log and for the audit log. */

import {
  AuthorizationResponseError,
  ClientError,
  ResponseBodyError,
  WWWAuthenticateChallengeError,
} from "openid-client";
import { innermostCause } from "../base/innermost-cause.ts";
import type { EmailProblem } from "./verified-email.ts";

/**
 * Why a sign-in failed, as in `/sign-in?error=<code>`. `access_denied`: the person or the issuer
 * declined. `expired`: it took too long or began in another browser. `email_not_verified`: the
 * issuer does not vouch for the e-mail. `email_taken`: the e-mail is bound to another user.
 * `provider_unavailable`: the issuer can't be reached or does not accept Keyrun. `failed`: the
 * issuer's response can't be trusted.
 */
export type SignInError =
  | "access_denied"
  | "expired"
  | "email_not_verified"
  | "email_taken"
  | "provider_unavailable"
  | "failed";

export interface RefusedOutcome {
  readonly kind: "refused";
  readonly error: SignInError;
  /**
   * For the operator, as the detail of an audit event: `cause=wrong_clock`. There are few of them,
   * whatever a caller sends.
   */
  readonly detail: string;
  /** For the log. It holds no token and no code. */
  readonly cause: Error;
}

/** A sign-in that comes back to a browser which did not begin it, or no longer knows of it. */
export function expired(): RefusedOutcome {
  const cause = new Error("no such sign-in of this browser is under way");
  return { kind: "refused", error: "expired", detail: "cause=expired", cause };
}

export function emailTaken(): RefusedOutcome {
  const cause = new Error("the e-mail is bound to another subject of this issuer");
  return { kind: "refused", error: "email_taken", detail: "cause=email_taken", cause };
}

export function emailRefused(problem: EmailProblem): RefusedOutcome {
  const cause = new Error(`the e-mail does not count: ${problem}`);
  return { kind: "refused", error: "email_not_verified", detail: `cause=${problem}`, cause };
}

/** The issuer's metadata could not be had. */
export function undiscovered(thrown: unknown): RefusedOutcome {
  const detail = isOutOfReach(thrown) ? "cause=issuer_unreachable" : "cause=wrong_metadata";
  return { kind: "refused", error: "provider_unavailable", detail, cause: causeOf(thrown) };
}

/** The issuer's answer to the sign-in, or to a request of Keyrun's, was an error or was refused. */
export function refusedAnswer(thrown: unknown): RefusedOutcome {
  const detail = detailOf(thrown);
  return { kind: "refused", error: errorOf(thrown), detail, cause: causeOf(thrown) };
}

function errorOf(thrown: unknown): SignInError {
  if (thrown instanceof AuthorizationResponseError) {
    return thrown.error === "access_denied" ? "access_denied" : "failed";
  }
  return isOutOfReach(thrown) || refusesKeyrun(thrown) ? "provider_unavailable" : "failed";
}

function detailOf(thrown: unknown): string {
  if (isOutOfReach(thrown)) return "cause=issuer_unreachable";
  const code = issuersCode(thrown);
  if (code === "access_denied") return "cause=access_denied";
  if (code === "invalid_grant") return "cause=code_refused";
  if (code !== undefined) return `cause=issuer_refused code=${knownCodes.has(code) ? code : "other"}`;
  if (thrown instanceof ClientError && thrown.code === timestampCheckFailed) return "cause=wrong_clock";
  const claim = claimOf(thrown);
  return claim === undefined ? "cause=wrong_token" : `cause=wrong_token claim=${claim}`;
}

/** openid-client takes its codes from oauth4webapi, and exports none of them. */
const timestampCheckFailed = "OAUTH_JWT_TIMESTAMP_CHECK_FAILED";

/** The claim that openid-client's words name. Its errors have no field for it. */
function claimOf(thrown: unknown): string | undefined {
  return /"(aud|azp|exp|iat|iss|nbf|nonce|sub)"/.exec(innermostCause(thrown))?.[1];
}

/**
 * The codes of RFC 6749 (sections 4.1.2.1 and 5.2), RFC 6750 (section 3.1) and OpenID Connect Core
 * 1.0 (section 3.1.2.6). Anybody can write another one into the address of a return.
 */
const knownCodes: ReadonlySet<string> = new Set([
  "account_selection_required",
  "consent_required",
  "insufficient_scope",
  "interaction_required",
  "invalid_client",
  "invalid_request",
  "invalid_scope",
  "invalid_token",
  "login_required",
  "server_error",
  "temporarily_unavailable",
  "unauthorized_client",
  "unsupported_grant_type",
  "unsupported_response_type",
]);

/**
 * True if the issuer rejects Keyrun's request and not this person's code: the client's id or secret
 * is wrong, or the issuer has a fault.
 */
function refusesKeyrun(thrown: unknown): boolean {
  const code = issuersCode(thrown);
  return code !== undefined && code !== "invalid_grant";
}

/** The issuer's error code (RFC 6749, sections 4.1.2.1 and 5.2; RFC 6750, section 3). */
function issuersCode(thrown: unknown): string | undefined {
  if (thrown instanceof ResponseBodyError || thrown instanceof AuthorizationResponseError) {
    return thrown.error;
  }
  if (!(thrown instanceof WWWAuthenticateChallengeError)) return undefined;
  return thrown.cause.find(({ parameters }) => parameters.error)?.parameters.error ?? "no code";
}

/** fetch throws a TypeError if nobody answers, and a TimeoutError if the answer is late. */
function isOutOfReach(thrown: unknown): boolean {
  if (thrown instanceof ClientError) return isOutOfReach(thrown.cause) || thrown.code === "OAUTH_TIMEOUT";
  return thrown instanceof TypeError || (thrown instanceof DOMException && thrown.name === "TimeoutError");
}

/**
 * Keeps only the innermost message and the codes. The errors of openid-client also hold what the
 * issuer sent, with codes and tokens.
 */
function causeOf(thrown: unknown): Error {
  const code = issuersCode(thrown);
  return new Error(code === undefined ? innermostCause(thrown) : `${innermostCause(thrown)}: ${code}`);
}
