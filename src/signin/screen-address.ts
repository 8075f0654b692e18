import { isLoopbackHost } from "../loopback-host.ts";

/** Where browsers reach the screen. */
export interface ScreenAddress {
  /** What links begin with: scheme, host and port, without a slash at the end. */
  readonly origin: string;
  /** Whether browsers come over HTTPS. */
  readonly secure: boolean;
  /** The port that cookies are named for, since the ports of one host share their cookies. */
  readonly port: number;
  /** Every `Host` that the screen answers to, as URLs write it: lower case, without the scheme's own port. */
  readonly hosts: ReadonlySet<string>;
}

/**
 * The screen's address: the public URL's where there is one, and then no other host is answered; else that of a
 * listener on the loopback, under each of its names.
 */
export function screenAddress(at: {
  readonly publicUrl: string | undefined;
  readonly bound: { readonly host: string; readonly port: number };
}): ScreenAddress {
  const { host, port } = at.bound;
  const url = new URL(at.publicUrl ?? `http://${host.includes(":") ? `[${host}]` : host}:${port}`);
  const names = at.publicUrl === undefined ? ["localhost", "127.0.0.1", "[::1]"] : [];
  const others = names.map((name) => new URL(`http://${name}:${port}`).host);
  return {
    origin: url.origin,
    secure: url.protocol === "https:",
    port: Number(url.port || (url.protocol === "https:" ? 443 : 80)),
    hosts: new Set([url.host, ...others]),
  };
}

/** How people sign in: with the issuer's help, by a one-time link on this machine alone, or not at all. */
export type SignInMode = "oidc" | "local" | "off";

/** A one-time link is safe where nobody else reaches the listener: on the loopback, and known by no other name. */
export function signInMode(config: {
  readonly host: string;
  readonly publicUrl: string | undefined;
  readonly oidc: object | undefined;
}): SignInMode {
  if (config.oidc) return "oidc";
  const known = config.publicUrl === undefined || isLoopbackHost(new URL(config.publicUrl).hostname);
  return known && isLoopbackHost(config.host) ? "local" : "off";
}
