import {
  allowInsecureRequests,
  type ClientAuth,
  ClientSecretBasic,
  ClientSecretPost,
  type Configuration,
  discovery,
  enableNonRepudiationChecks,
} from "openid-client";
import type { Clock } from "../clock.ts";
import { bounds, type OidcConfig } from "../config.ts";

/** What the issuer says of itself; asked for when it is first needed, so that Keyrun starts without it. */
export type FindIssuer = () => Promise<Configuration>;

/**
 * The issuer's metadata, asked for at most `oidcDiscoveryTriesMax` times in a row and kept for `oidcMetadataMs`; its
 * keys are fetched again whenever a token names one that is not known. A failure is not kept: the next who signs in
 * asks again. Rejects with openid-client's error.
 */
export function createFindIssuer({ clock, oidc }: { clock: Clock; oidc: OidcConfig }): FindIssuer {
  let held: { readonly found: Promise<Configuration>; readonly expireMs: number } | undefined;
  return () => {
    if (held && clock.monotonicMs() < held.expireMs) return held.found;
    const found = discover(oidc, bounds.oidcDiscoveryTriesMax);
    const own = { found, expireMs: clock.monotonicMs() + bounds.oidcMetadataMs };
    held = own;
    found.catch(() => {
      if (held === own) held = undefined;
    });
    return found;
  };
}

async function discover(oidc: OidcConfig, triesLeft: number): Promise<Configuration> {
  const { issuer, clientId, clientSecret } = oidc;
  const url = new URL(issuer);
  // The settings allow plain HTTP on the loopback alone.
  const insecure = url.protocol === "http:" ? [allowInsecureRequests] : [];
  try {
    // By default a token that came over TLS is believed unread; here its signature is checked all the same.
    return await discovery(url, clientId, {}, secretAuth(clientSecret), {
      execute: [...insecure, enableNonRepudiationChecks],
      timeout: bounds.oidcTimeoutMs / 1_000,
    });
  } catch (thrown) {
    if (triesLeft <= 1) throw thrown;
    return discover(oidc, triesLeft - 1);
  }
}

/** The way that the issuer takes the secret: in the header, which is every issuer's default, else in the body. */
function secretAuth(clientSecret: string): ClientAuth {
  const basic = ClientSecretBasic(clientSecret);
  const post = ClientSecretPost(clientSecret);
  return (server, client, body, headers) => {
    const methods = server.token_endpoint_auth_methods_supported ?? ["client_secret_basic"];
    const authenticate = methods.includes("client_secret_basic") ? basic : post;
    authenticate(server, client, body, headers);
  };
}
