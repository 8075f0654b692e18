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
import { Refusal } from "../error.ts";
import type { FindIssuer } from "./oidc-issuer.ts";
import type { OidcState } from "./oidc-state-cookie.ts";
import type { SignedInUser } from "./sessions.ts";
import type { UserStore } from "./user-store.ts";

/**
 * Why a sign-in did not succeed, as `/sign-in?error=<code>` names it: the person declined or the issuer did; it took
 * too long or was begun in another browser; the issuer does not vouch for the e-mail; the e-mail is another user's;
 * the issuer is out of reach or does not know Keyrun; or what it sent can't be trusted.
 */
export type SignInError =
  | "access_denied"
  | "expired"
  | "email_not_verified"
  | "email_taken"
  | "provider_unavailable"
  | "failed";

export type OidcOutcome =
  | { readonly kind: "signed_in"; readonly user: SignedInUser }
  /** `cause` is for the log: it holds no token and no code. */
  | { readonly kind: "refused"; readonly error: SignInError; readonly cause: Error };

/** Sign-in by authorization code with PKCE, state and nonce (OpenID Connect Core 1.0, section 3.1; RFC 9700). */
export interface Oidc {
  /** Where to send the browser, and what it must bring back. Refused where the issuer can't be reached. */
  begin(returnTo: string): Promise<{ readonly location: string; readonly state: OidcState } | OidcOutcome>;
  /** What came of it; `search` is the callback's query as it came. Never rejects but for the store. */
  complete(search: string, state: OidcState): Promise<OidcOutcome>;
}

/** Signatures by a key pair alone: with `none` or HS256 whoever knows the client could write a token. */
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
 * A user is the issuer's subject. The e-mail, which memberships go by, counts only where the issuer says that it is
 * verified; and it is the subject's who first signed in with it, until preview access is withdrawn from it: another
 * subject with the same e-mail is refused, for addresses get new owners, and those must not inherit teams.
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

/** Swaps the code for the ID token's claims; issuer, audience, times, nonce and state are openid-client's to check. */
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
  // Many issuers tell the e-mail here alone; the answer must be of the same subject.
  const { email, email_verified } = await fetchUserInfo(issuer, tokens.access_token, claims.sub);
  return { ...claims, email, email_verified };
}

function algorithmOf(idToken: string): string {
  const header: unknown = JSON.parse(Buffer.from(idToken.split(".")[0] ?? "", "base64url").toString());
  return typeof header === "object" && header !== null && "alg" in header ? String(header.alg) : "";
}

/** The user, where the issuer vouches for the e-mail: `true`, and not what merely looks like it. */
function userOf({ iss, sub, email, email_verified }: Claims): SignedInUser | undefined {
  if (typeof iss !== "string" || typeof sub !== "string" || sub === "") return undefined;
  if (email_verified !== true || typeof email !== "string" || !emailForm.test(email)) return undefined;
  return { issuer: iss, subject: sub, email: email.toLowerCase() };
}

const emailForm = /^[^\s@\p{Cc}]{1,64}@[^\s@\p{Cc}]{1,189}$/u;

function errorOf(thrown: unknown): SignInError {
  if (thrown instanceof AuthorizationResponseError) {
    return thrown.error === "access_denied" ? "access_denied" : "failed";
  }
  return isOutOfReach(thrown) || refusesKeyrun(thrown) ? "provider_unavailable" : "failed";
}

/** The issuer turns Keyrun away, and not this person's code: the client's id or secret is wrong, or its own fault. */
function refusesKeyrun(thrown: unknown): boolean {
  const code = issuersCode(thrown);
  return code !== undefined && code !== "invalid_grant";
}

/** The issuer's own word for what is wrong with a request (RFC 6749, section 5.2; RFC 6750, section 3). */
function issuersCode(thrown: unknown): string | undefined {
  if (thrown instanceof ResponseBodyError) return thrown.error;
  if (!(thrown instanceof WWWAuthenticateChallengeError)) return undefined;
  return thrown.cause.find(({ parameters }) => parameters.error)?.parameters.error ?? "no code";
}

/** What fetch says where nobody answers (TypeError), or not in time. */
function isOutOfReach(thrown: unknown): boolean {
  if (thrown instanceof ClientError) return isOutOfReach(thrown.cause) || thrown.code === "OAUTH_TIMEOUT";
  return thrown instanceof TypeError || (thrown instanceof DOMException && thrown.name === "TimeoutError");
}

/** The name and a code alone: openid-client's errors hold what the issuer sent, codes and tokens included. */
function refused(error: SignInError, thrown: unknown): OidcOutcome {
  const { name, message } = thrown instanceof Error ? thrown : new Error("unknown");
  const code =
    issuersCode(thrown) ?? (thrown instanceof Error && "code" in thrown ? String(thrown.code) : "no code");
  return { kind: "refused", error, cause: new Error(`${name}: ${message} (${code})`) };
}
