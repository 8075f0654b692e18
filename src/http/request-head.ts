import { isIP } from "node:net";
import { mayHoldSecret } from "../log/redaction.ts";

/** The head of one HTTP request as a plain value, the same for HTTP/1.1 and HTTP/2. */
export interface RequestHead {
  readonly method: string;
  /** Path and query as received, not decoded. Starts with "/". */
  readonly target: string;
  readonly httpVersion: string;
  /** Names and values, alternating, as received. Over HTTP/2 they include the pseudo-headers. */
  readonly rawHeaders: readonly string[];
  /** The address at the other end of the connection; "" if the peer has disconnected already. */
  readonly peer: string;
}

/**
 * Returns a header's value by its lower-case name; undefined if it was not sent. Several values are
 * joined by ", ", and those of cookies by "; " (RFC 9110, section 5.3; RFC 6265, section 5.4).
 */
export function headerOf({ rawHeaders }: Pick<RequestHead, "rawHeaders">, name: string): string | undefined {
  let found: string | undefined;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (!isNamed(rawHeaders[at], name)) continue;
    const value = rawHeaders[at + 1] ?? "";
    found = found === undefined ? value : `${found}${name === "cookie" ? "; " : ", "}${value}`;
  }
  return found;
}

/**
 * Every value of `Authorization`, in order. They are not joined, so that two of them can be
 * refused.
 */
export function authorizationsOf({ rawHeaders }: Pick<RequestHead, "rawHeaders">): string[] {
  const values: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (isNamed(rawHeaders[at], "authorization")) values.push(rawHeaders[at + 1] ?? "");
  }
  return values;
}

/** How often a header was sent, by its lower-case name. */
export function countOf({ rawHeaders }: Pick<RequestHead, "rawHeaders">, name: string): number {
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) if (isNamed(rawHeaders[at], name)) count += 1;
  return count;
}

/** The lengths are compared first. That rules out nearly every header without a lower-case copy. */
function isNamed(sent: string | undefined, name: string): boolean {
  return sent?.length === name.length && (sent === name || sent.toLowerCase() === name);
}

const callersRequestId = /^[A-Za-z0-9._-]{1,128}$/;

/**
 * The caller's own id for the request if it has the right form, otherwise a new one. An id that may
 * hold the secret of a key is replaced too, because ids are logged and passed on.
 */
export function requestIdOf(head: RequestHead, newRequestId: () => string): string {
  const sent = headerOf(head, "x-request-id");
  const isOwn = sent !== undefined && callersRequestId.test(sent) && !mayHoldSecret(sent);
  return isOwn ? sent : newRequestId();
}

/**
 * The client's address: the peer's, or the one named by the trusted proxies; see `clientAddress`.
 */
export function addressOf(head: RequestHead, trustProxyHops: number): string {
  const forwardedFor = trustProxyHops === 0 ? undefined : headerOf(head, "x-forwarded-for");
  return clientAddress(head.peer, { forwardedFor, trustedHops: trustProxyHops });
}

/** The target without its query. */
export function pathOf(target: string): string {
  const mark = target.indexOf("?");
  return mark === -1 ? target : target.slice(0, mark);
}

/** The target's query without its question mark; "" if there is none. */
export function queryOf(target: string): string {
  const mark = target.indexOf("?");
  return mark === -1 ? "" : target.slice(mark + 1);
}

/**
 * Returns the client's address. Without trusted proxies it is the peer's. With `trustedHops`
 * proxies in front it is the `X-Forwarded-For` entry that the outermost of them wrote: the entry
 * that many from the right. If there are fewer entries, it is the leftmost. An entry that is not an
 * IP address is not trusted, and the peer's address is returned. So is one with a zone, which may
 * hold any text.
 */
export function clientAddress(
  peer: string,
  { forwardedFor, trustedHops }: { forwardedFor: string | undefined; trustedHops: number },
): string {
  if (trustedHops === 0 || forwardedFor === undefined) return plainAddress(peer);
  const entries = forwardedFor.split(",");
  const claimed = entries[Math.max(0, entries.length - trustedHops)]?.trim() ?? "";
  return plainAddress(isIP(claimed) === 0 || claimed.includes("%") ? peer : claimed);
}

/**
 * Returns an IPv4 address that came over an IPv6 socket in its IPv4 form, so that one client always
 * has the same address.
 */
function plainAddress(address: string): string {
  return address.startsWith("::ffff:") && isIP(address.slice(7)) === 4 ? address.slice(7) : address;
}

export function isLoopback(address: string): boolean {
  const plain = plainAddress(address);
  return plain === "::1" || (plain.startsWith("127.") && isIP(plain) === 4);
}
