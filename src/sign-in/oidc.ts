/** A sign-in by OpenID Connect: the way to the issuer and back. */

import {
  AuthorizationResponseError,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  ClientError,
  type Configuration,
  calculatePKCECodeChallenge,
  fetchUserInfo,
  ResponseBodyError,
  randomNonce,
  randomPKCECodeVerifier,
  randomState,
  WWWAuthenticateChallengeError,
} from "openid-client";
import { normalEmail } from "../base/fields.ts";
import { Refusal } from "../refusal/refusal.ts";
import type { OidcState } from "./cookies.ts";
import type { FindIssuer } from "./oidc-issuer.ts";
import type { SignedInUser } from "./sessions.ts";
import type { UserStore } from "./sign-in-store.ts";

/**
 * Why a sign-in failed, as in `/sign-in?error=<code>`. `access_denied`: the person or the issuer
 * declined. `expired`: it took too long or began in another browser. `email_not_verified`: the
 * issuer has not verified the e-mail. `email_taken`: the e-mail is bound to another user.
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

export type OidcOutcome = { readonly kind: "signed_in"; readonly user: SignedInUser } | RefusedOutcome;

export interface RefusedOutcome {
  readonly kind: "refused";
  readonly error: SignInError;
  /** For the log. It holds no token and no code. */
  readonly cause: Error;
}

/**
 * Sign-in by authorization code with PKCE, state and nonce (OpenID Connect Core 1.0, section 3.1;
 * RFC 9700).
 */
export interface Oidc {
  /**
   * Returns where to send the browser, and the state that it must bring back. Returns a refused
   * outcome if the issuer can't be reached.
   */
  begin(returnTo: string): Promise<{ readonly location: string; readonly state: OidcState } | RefusedOutcome>;
  /**
   * Returns the outcome of a sign-in. `search` is the callback's query, not decoded. Rejects only
   * if the store fails.
   */
  complete(search: string, state: OidcState): Promise<OidcOutcome>;
}

/**
 * Only signatures by a key pair. With `none` or HS256, anybody who knows the client's settings
 * could write a token.
 */
const signingAlgorithms = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
  "Ed25519",
];

/**
 * A user is a subject of the issuer. Memberships go by e-mail, so an e-mail counts only if the
 * issuer says that it is verified. It belongs to the first subject who signs in with it, until
 * preview access is withdrawn from it. Another subject with the same e-mail is refused, because an
 * address can get a new owner, who must not inherit teams.
 */
export function createOidc(parts: {
  readonly findIssuer: FindIssuer;
  readonly redirectUri: () => string;
  readonly users: UserStore;
}): Oidc {
  return {
    async begin(returnTo) {
      try {
        const issuer = await parts.findIssuer();
        const state = {
          state: randomState(),
          nonce: randomNonce(),
          codeVerifier: randomPKCECodeVerifier(),
          returnTo,
        };
        const location = buildAuthorizationUrl(issuer, {
          redirect_uri: parts.redirectUri(),
          scope: "openid email",
          response_type: "code",
          state: state.state,
          nonce: state.nonce,
          code_challenge: await calculatePKCECodeChallenge(state.codeVerifier),
          code_challenge_method: "S256",
        });
        return { location: location.href, state };
      } catch (thrown) {
        return refused("provider_unavailable", thrown);
      }
    },
    async complete(search, state) {
      try {
        const claims = await redeem(await parts.findIssuer(), new URL(parts.redirectUri() + search), state);
        const user = userOf(claims);
        if (!user) return refused("email_not_verified", new Error("the e-mail is missing or not verified"));
        if (await parts.users.bind(user)) return { kind: "signed_in", user };
        return refused("email_taken", new Error("the e-mail is bound to another subject of this issuer"));
      } catch (thrown) {
        if (thrown instanceof Refusal) throw thrown;
        return refused(errorOf(thrown), thrown);
      }
    },
  };
}

type Claims = Readonly<Record<string, unknown>>;

/**
 * Exchanges the code for the claims of the ID token. openid-client checks issuer, audience, times,
 * nonce and state.
 */
async function redeem(
  issuer: Configuration,
  url: URL,
  { state, nonce, codeVerifier }: OidcState,
): Promise<Claims> {
  const tokens = await authorizationCodeGrant(issuer, url, {
    expectedState: state,
    expectedNonce: nonce,
    pkceCodeVerifier: codeVerifier,
    idTokenExpected: true,
  });
  const claims = tokens.claims();
  if (!claims || !signingAlgorithms.includes(algorithmOf(tokens.id_token ?? ""))) {
    throw new Error("the ID token is not signed by a key pair");
  }
  if (claims.email !== undefined || !issuer.serverMetadata().userinfo_endpoint) return claims;
  // Many issuers return the e-mail only from the userinfo endpoint. The subject there must be the
  // same.
  const { email, email_verified } = await fetchUserInfo(issuer, tokens.access_token, claims.sub);
  return { ...claims, email, email_verified };
}

function algorithmOf(idToken: string): string {
  const header: unknown = JSON.parse(Buffer.from(idToken.split(".")[0] ?? "", "base64url").toString());
  return typeof header === "object" && header !== null && "alg" in header ? String(header.alg) : "";
}

/**
 * Returns the user if the issuer has verified the e-mail. Only the boolean `true` counts, not a
 * text or a number.
 */
function userOf({ iss, sub, email, email_verified }: Claims): SignedInUser | undefined {
  if (typeof iss !== "string" || typeof sub !== "string" || sub === "") return undefined;
  if (email_verified !== true || typeof email !== "string") return undefined;
  const address = normalEmail(email);
  return address === undefined ? undefined : { issuer: iss, subject: sub, email: address };
}

function errorOf(thrown: unknown): SignInError {
  if (thrown instanceof AuthorizationResponseError) {
    return thrown.error === "access_denied" ? "access_denied" : "failed";
  }
  return isOutOfReach(thrown) || refusesKeyrun(thrown) ? "provider_unavailable" : "failed";
}

/**
 * True if the issuer rejects Keyrun's request and not this person's code: the client's id or secret
 * is wrong, or the issuer has a fault.
 */
function refusesKeyrun(thrown: unknown): boolean {
  const code = issuersCode(thrown);
  return code !== undefined && code !== "invalid_grant";
}

/** The issuer's error code for a request (RFC 6749, section 5.2; RFC 6750, section 3). */
function issuersCode(thrown: unknown): string | undefined {
  if (thrown instanceof ResponseBodyError) return thrown.error;
  if (!(thrown instanceof WWWAuthenticateChallengeError)) return undefined;
  return thrown.cause.find(({ parameters }) => parameters.error)?.parameters.error ?? "no code";
}

/** fetch throws a TypeError if nobody answers, and a TimeoutError if the answer is late. */
function isOutOfReach(thrown: unknown): boolean {
  if (thrown instanceof ClientError) return isOutOfReach(thrown.cause) || thrown.code === "OAUTH_TIMEOUT";
  return thrown instanceof TypeError || (thrown instanceof DOMException && thrown.name === "TimeoutError");
}

/**
 * Keeps only the name, message and code. The errors of openid-client also hold what the issuer
 * sent, with codes and tokens.
 */
function refused(error: SignInError, thrown: unknown): RefusedOutcome {
  const { name, message } = thrown instanceof Error ? thrown : new Error("unknown");
  const code =
    issuersCode(thrown) ?? (thrown instanceof Error && "code" in thrown ? String(thrown.code) : "no code");
  return { kind: "refused", error, cause: new Error(`${name}: ${message} (${code})`) };
}
