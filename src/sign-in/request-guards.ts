import type { ScreenAddress } from "./screen-address.ts";

/**
 * Returns a header's value by its lower-case name; values of a repeated header are joined by ", ".
 */
export type HeaderLookup = (name: string) => string | undefined;

/**
 * True if the request was sent to one of the screen's own hosts. With DNS rebinding a hostile page
 * has a name of its own that resolves to this machine, so its script is same-origin, and only the
 * host shows the attack. Guards the screen, sign-in and session RPCs, but never `/api/`, where the
 * API key is proof enough.
 */
export function isOwnHost(header: HeaderLookup, address: ScreenAddress): boolean {
  // HTTP/2 has the host in `:authority`. If a request has both, both must be ours.
  const sent = [header("host"), header(":authority")].filter((host) => host !== undefined);
  return sent.length > 0 && sent.every((host) => address.hosts.has(normalHost(host, address)));
}

/**
 * True if a request that may change something comes from the screen itself. The browser says so,
 * and scripts can't forge it: by `Sec-Fetch-Site`, or, if the browser does not send that, by an
 * `Origin` that is exactly the host's own. False if neither is sent. For every unsafe request with
 * a cookie (W3C Fetch Metadata; RFC 6454, section 7).
 */
export function isSameOrigin(header: HeaderLookup, address: ScreenAddress): boolean {
  const site = header("sec-fetch-site");
  if (site !== undefined) return site === "same-origin";
  const host = header("host") ?? header(":authority");
  if (host === undefined) return false;
  return header("origin") === `${address.secure ? "https" : "http"}://${normalHost(host, address)}`;
}

function normalHost(host: string, { secure }: ScreenAddress): string {
  return host.toLowerCase().replace(secure ? /:443$/ : /:80$/, "");
}
