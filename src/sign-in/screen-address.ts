import { isEmbedded } from "../settings/config.ts";
import { type HostAndPort, isLoopbackHost, writeHostAndPort } from "../settings/host.ts";

/** The addresses at which browsers reach the screen. */
export interface ScreenAddress {
  /** The start of links: scheme, host and port, without a slash at the end. */
  readonly origin: string;
  /** True if browsers use HTTPS. */
  readonly secure: boolean;
  /** The port in cookie names. All ports of one host share their cookies. */
  readonly port: number;
  /**
   * Every `Host` that the screen accepts, as URLs write it: lower case, without the default port.
   */
  readonly hosts: ReadonlySet<string>;
}

/**
 * Returns the screen's address. With a public URL only its host is accepted. Without one, it is the
 * address of a listener on loopback, with each name of loopback.
 */
export function screenAddress(at: {
  readonly publicUrl: string | undefined;
  readonly bound: HostAndPort;
}): ScreenAddress {
  const { port } = at.bound;
  const url = new URL(at.publicUrl ?? `http://${writeHostAndPort(at.bound)}`);
  const names = at.publicUrl === undefined ? ["localhost", "127.0.0.1", "[::1]"] : [];
  const others = names.map((name) => new URL(`http://${name}:${port}`).host);
  return {
    origin: url.origin,
    secure: url.protocol === "https:",
    port: Number(url.port || (url.protocol === "https:" ? 443 : 80)),
    hosts: new Set([url.host, ...others]),
  };
}

/**
 * How people sign in: through an OpenID Connect issuer, by a one-time link on this machine, or not
 * at all.
 */
export type SignInMode = "oidc" | "local" | "off";

/**
 * A one-time link is safe only if nobody else can reach the listener: it is on loopback, and its
 * public URL, if there is one, is too. It is kept in memory, so it exists with the embedded store
 * only: another store may be that of several instances.
 */
export function signInMode(config: {
  readonly host: string;
  readonly publicUrl: string | undefined;
  readonly oidc: object | undefined;
  readonly mongodbUri: string | undefined;
}): SignInMode {
  if (config.oidc) return "oidc";
  if (!isEmbedded(config)) return "off";
  const known = config.publicUrl === undefined || isLoopbackHost(new URL(config.publicUrl).hostname);
  return known && isLoopbackHost(config.host) ? "local" : "off";
}
