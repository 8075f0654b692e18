import type { ScreenAddress } from "./screen-address.ts";

/** A header's value by its lower-case name, joined by ", " where it was sent more than once. */
export type HeaderLookup = (name: string) => string | undefined;

/**
 * Whether the request was sent to one of the screen's own hosts. A page of another name that resolves to this
 * machine (DNS rebinding) is same-origin to its own script, and only the host tells it apart. Guards the screen,
 * sign-in and session RPCs; never `/api/`, where an API key is proof enough.
 */
export function isOwnHost(header: HeaderLookup, address: ScreenAddress): boolean {
  // HTTP/2 has the host in `:authority`; where a request has both, both must be ours.
  const sent = [header("host"), header(":authority")].filter((host) => host !== undefined);
  return sent.length > 0 && sent.every((host) => address.hosts.has(normalHost(host, address)));
}

/**
 * Whether a request that may change something comes from the screen itself, as browsers say and scripts can't: by
 * `Sec-Fetch-Site`, or where a browser does not send that, by an `Origin` that is exactly the host's own. Neither of
 * the two is a refusal. For every unsafe request with a cookie (W3C Fetch Metadata; RFC 6454, section 7).
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
