import { clientAddress } from "./client-address.ts";
import type { NodeRequest } from "./node-http.ts";

export interface RequestFactsOptions {
  newRequestId(): string;
  /** How many proxies in front are believed about the client's address. */
  readonly trustProxyHops: number;
}

const callersRequestId = /^[A-Za-z0-9._-]{1,128}$/;

/** Every value of `Authorization`, in order: Node's own `headers` keeps the first of two without a word. */
export function authorizationsOf({ rawHeaders }: NodeRequest): string[] {
  const values: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at];
    // The length first: it rules out nearly every header without making a lower-case copy.
    if (name?.length === 13 && name.toLowerCase() === "authorization") values.push(rawHeaders[at + 1] ?? "");
  }
  return values;
}

/** A header's value by its lower-case name, joined where it was sent more than once. */
export function headerOf(req: NodeRequest, name: string): string | undefined {
  const value = req.headers[name];
  return Array.isArray(value) ? value.join(", ") : value;
}

/** The caller's own id for the request where it has the right form, else a new one. */
export function requestIdOf(req: NodeRequest, { newRequestId }: RequestFactsOptions): string {
  const sent = headerOf(req, "x-request-id");
  return sent !== undefined && callersRequestId.test(sent) ? sent : newRequestId();
}

/** The client's address: the peer's, or the one named by as many proxies as are trusted. */
export function addressOf(req: NodeRequest, { trustProxyHops }: RequestFactsOptions): string {
  return clientAddress(req.socket.remoteAddress ?? "", {
    forwardedFor: headerOf(req, "x-forwarded-for"),
    trustedHops: trustProxyHops,
  });
}
