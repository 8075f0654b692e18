/** What the issuer says of itself, fetched when it is needed. */

import {
  allowInsecureRequests,
  type ClientAuth,
  ClientSecretBasic,
  ClientSecretPost,
  type Configuration,
  discovery,
  enableNonRepudiationChecks,
} from "openid-client";
import type { Clock } from "../base/clock.ts";
import { trustSystemRoots } from "../base/trusted-roots.ts";
import { bounds } from "../bounds.ts";
import type { OidcConfig } from "../settings/config.ts";

/**
 * Returns the issuer's metadata. It is fetched on first use, so that Keyrun can start without the
 * issuer.
 */
export type FindIssuer = () => Promise<Configuration>;

/**
 * Creates a cache of the issuer's metadata: fetched with at most `oidcDiscoveryTriesMax` tries and
 * kept for `oidcMetadataMs`. The issuer's keys are fetched again when a token names an unknown key.
 * A failure is not kept, so the next sign-in tries again. Rejects with openid-client's error.
 */
export function createFindIssuer({ clock, oidc }: { clock: Clock; oidc: OidcConfig }): FindIssuer {
  let cached: { readonly found: Promise<Configuration>; readonly expireMs: number } | undefined;
  return () => {
    if (cached && clock.monotonicMs() < cached.expireMs) return cached.found;
    const found = discoverIssuer(oidc);
    const own = { found, expireMs: clock.monotonicMs() + bounds.oidcMetadataMs };
    cached = own;
    found.catch(() => {
      if (cached === own) cached = undefined;
    });
    return found;
  };
}

/** Fetches the metadata once, and again if that fails. Rejects with openid-client's error. */
export async function discoverIssuer(
  oidc: OidcConfig,
  triesLeft: number = bounds.oidcDiscoveryTriesMax,
): Promise<Configuration> {
  const url = new URL(oidc.issuer);
  if (url.protocol === "https:") trustSystemRoots();
  // The settings allow plain HTTP only on loopback.
  const insecure = url.protocol === "http:" ? [allowInsecureRequests] : [];
  try {
    // By default openid-client trusts a token that came over TLS. This verifies its signature as
    // well.
    return await discovery(url, oidc.clientId, {}, secretAuth(oidc), {
      execute: [...insecure, enableNonRepudiationChecks],
      timeout: bounds.oidcTimeoutMs / 1_000,
    });
  } catch (thrown) {
    if (triesLeft <= 1) throw thrown;
    return discoverIssuer(oidc, triesLeft - 1);
  }
}

/**
 * Sends the secret in the way of the settings. Without one it goes in the header, which is the
 * default, or in the body if the issuer names no other way that Keyrun knows.
 */
function secretAuth({ clientSecret, clientAuthMethod }: OidcConfig): ClientAuth {
  const basic = ClientSecretBasic(clientSecret);
  const post = ClientSecretPost(clientSecret);
  return (server, client, body, headers) => {
    const methods = server.token_endpoint_auth_methods_supported ?? ["client_secret_basic"];
    const byIssuer = methods.includes("client_secret_basic") ? "client_secret_basic" : "client_secret_post";
    const authenticate = (clientAuthMethod ?? byIssuer) === "client_secret_basic" ? basic : post;
    authenticate(server, client, body, headers);
  };
}
