/** A sign-in by OpenID Connect: the way to the issuer and back. */

import {
  authorizationCodeGrant,
  buildAuthorizationUrl,
  type Configuration,
  calculatePKCECodeChallenge,
  fetchUserInfo,
  randomNonce,
  randomPKCECodeVerifier,
  randomState,
} from "openid-client";
import { Refusal } from "../refusal/refusal.ts";
import type { OidcState } from "./cookies.ts";
import {
  emailRefused,
  emailTaken,
  type RefusedOutcome,
  refusedAnswer,
  undiscovered,
} from "./oidc-failure.ts";
import type { FindIssuer } from "./oidc-issuer.ts";
import type { SignedInUser } from "./sessions.ts";
import type { UserStore } from "./sign-in-store.ts";
import { type Claims, verifiedEmail } from "./verified-email.ts";

export type OidcOutcome = { readonly kind: "signed_in"; readonly user: SignedInUser } | RefusedOutcome;

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
  /** The operator's word for an issuer that does not say whether an e-mail is verified. */
  readonly assumesVerified: boolean;
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
        return undiscovered(thrown);
      }
    },
    async complete(search, state) {
      try {
        const answers = await redeem(await parts.findIssuer(), new URL(parts.redirectUri() + search), state);
        const found = verifiedEmail(answers, parts);
        if ("problem" in found) return emailRefused(found.problem);
        const [{ iss, sub }] = answers;
        const user: SignedInUser = { issuer: iss, subject: sub, email: found.email };
        return (await parts.users.bind(user)) ? { kind: "signed_in", user } : emailTaken();
      } catch (thrown) {
        if (thrown instanceof Refusal) throw thrown;
        return refusedAnswer(thrown);
      }
    },
  };
}

/** The claims of the ID token, whose issuer and subject were checked, and maybe of userinfo. */
type Answers = readonly [Claims & { readonly iss: string; readonly sub: string }, ...Claims[]];

/**
 * Exchanges the code for what the issuer says of the person. openid-client checks issuer, audience,
 * times, nonce and state of the ID token, and that userinfo is of the same subject.
 */
async function redeem(
  issuer: Configuration,
  url: URL,
  { state, nonce, codeVerifier }: OidcState,
): Promise<Answers> {
  const tokens = await authorizationCodeGrant(issuer, url, {
    expectedState: state,
    expectedNonce: nonce,
    pkceCodeVerifier: codeVerifier,
    idTokenExpected: true,
  });
  const claims = tokens.claims();
  if (!claims || claims.sub === "" || !signingAlgorithms.includes(algorithmOf(tokens.id_token ?? ""))) {
    throw new Error("the ID token has no subject, or is not signed by a key pair");
  }
  const isWhole = claims.email !== undefined && claims.email_verified !== undefined;
  if (isWhole || !issuer.serverMetadata().userinfo_endpoint) return [claims];
  // Okta and Authelia, for example, say only there that an e-mail is verified, or what it is.
  return [claims, await fetchUserInfo(issuer, tokens.access_token, claims.sub)];
}

function algorithmOf(idToken: string): string {
  const header: unknown = JSON.parse(Buffer.from(idToken.split(".")[0] ?? "", "base64url").toString());
  return typeof header === "object" && header !== null && "alg" in header ? String(header.alg) : "";
}
