import { isIP } from "node:net";
import { mayHoldSecret } from "../log/redaction.ts";
import { fail, type Refusal } from "../refusal/refusal.ts";

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
function countOf({ rawHeaders }: Pick<RequestHead, "rawHeaders">, name: string): number {
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
export function addressOf(head: RequestHead, trustProxyHops: number, onUnreadEntry: () => void): string {
  const forwardedFor = trustProxyHops === 0 ? undefined : headerOf(head, "x-forwarded-for");
  return clientAddress(head.peer, { forwardedFor, trustedHops: trustProxyHops, onUnreadEntry });
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
 * that many from the right. If there are fewer entries, it is the leftmost. An entry that can't be
 * read as an IP address is not trusted: `onUnreadEntry` is called, and the peer's is returned.
 */
export function clientAddress(
  peer: string,
  {
    forwardedFor,
    trustedHops,
    onUnreadEntry,
  }: { forwardedFor: string | undefined; trustedHops: number; onUnreadEntry: () => void },
): string {
  if (trustedHops === 0 || forwardedFor === undefined) return plainAddress(peer);
  const entries = forwardedFor.split(",");
  const claimed = readEntry(entries[Math.max(0, entries.length - trustedHops)]?.trim() ?? "");
  if (claimed === undefined) onUnreadEntry();
  return plainAddress(claimed ?? peer);
}

/**
 * The address of an entry: alone, with a port, in brackets, or in the quotes of a `for=` of RFC
 * 7239. Undefined for anything else, and for a zone, which may hold any text.
 */
function readEntry(entry: string): string | undefined {
  if (isIP(entry) !== 0) return entry.includes("%") ? undefined : entry;
  const { bracketed, plain } = entryForm.exec(entry)?.groups ?? {};
  if (bracketed !== undefined) return isIP(bracketed) === 6 ? bracketed : undefined;
  return plain !== undefined && isIP(plain) !== 0 ? plain : undefined;
}

const entryForm = /^(?<quote>"?)(?:\[(?<bracketed>[0-9a-f:.]+)\]|(?<plain>[0-9.]+))(?::\d{1,5})?\k<quote>$/i;

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

/** What the `Authorization` headers of a request hold. */
export type BearerCredential =
  | { readonly kind: "bearer"; readonly token: string }
  | { readonly kind: "missing" }
  | { readonly kind: "malformed" };

const bearerForm = /^bearer +\S+$/i;
const authorizationCharactersMax = 8 * 1024;

/**
 * Reads `Authorization: Bearer <token>` (RFC 6750, section 2.1; the scheme ignores case, RFC 9110,
 * section 11.1). `authorizations` holds every value that was sent. Two values are malformed, since
 * nobody can say which of them counts.
 */
export function readBearer(authorizations: readonly string[]): BearerCredential {
  if (authorizations.length > 1) return { kind: "malformed" };
  const value = authorizations[0]?.trim() ?? "";
  if (value === "") return { kind: "missing" };
  if (value.length > authorizationCharactersMax || !bearerForm.test(value)) return { kind: "malformed" };
  return { kind: "bearer", token: value.slice(value.lastIndexOf(" ") + 1) };
}

/** Reads a header that holds a key alone. Where it was sent twice, its values hold a comma. */
export function readKeyHeader(value: string): BearerCredential {
  const token = value.trim();
  if (token.length > authorizationCharactersMax || !/^[^\s,]+$/.test(token)) return { kind: "malformed" };
  return { kind: "bearer", token };
}

/**
 * Returns a check that refuses what Node accepts and Keyrun does not: another version than 1.0 and
 * 1.1 in a request line; too many headers or header bytes; a Host that is missing, repeated or no
 * host of a URL (RFC 9112, section 3.2; RFC 9113, section 8.3.1), though HTTP/1.0 may omit it; two
 * Content-Types over HTTP/2; and a transfer coding other than chunked, which Keyrun would not
 * decode, or one over HTTP/1.0, which has none (RFC 9112, section 6.1). CONNECT is refused too.
 */
export function createHeadCheck(limits: {
  /** How many headers one request may have. */
  readonly headersMax: number;
  /** How many bytes all headers of one request may have. */
  readonly headerBytesMax: number;
}): (head: RequestHead) => Refusal | undefined {
  // Callers use the same few hosts, so the last valid one is not parsed again.
  let goodHost: string | undefined;
  return (head) => {
    const { rawHeaders, httpVersion } = head;
    if (rawHeaders.length > 2 * limits.headersMax) return fail("HEADERS_TOO_LARGE");
    const isHttp2 = isOverHttp2(head);
    if (isHttp2) {
      if (listSize(rawHeaders) > limits.headerBytesMax) return fail("HEADERS_TOO_LARGE");
      if (countOf(head, "content-type") > 1) return fail("MALFORMED_REQUEST");
    } else if (!isFramedAsHttp1(head)) return fail("MALFORMED_REQUEST");
    if (countOf(head, "host") > 1) return fail("MALFORMED_REQUEST");
    const host = isHttp2 ? hostOfHttp2(head) : headerOf(head, "host");
    if (host === undefined) return httpVersion === "1.0" ? undefined : fail("MALFORMED_REQUEST");
    if (host !== goodHost && !isHost(host)) return fail("MALFORMED_REQUEST");
    goodHost = host;
    return head.method === "CONNECT" ? connectRefused() : undefined;
  };
}

/** The refusal of a CONNECT. It has no path, so `Allow` has the methods that some path allows. */
export function connectRefused(): Refusal {
  const metadata = { allow: "GET, HEAD, POST" };
  return fail("METHOD_NOT_ALLOWED", { problem: "Keyrun is no proxy: it does not serve CONNECT.", metadata });
}

/**
 * The size of a header list as RFC 9113 counts it (section 6.5.2). The server announces the bound,
 * but a client's first requests may be sent before it has read that.
 */
function listSize(rawHeaders: readonly string[]): number {
  let size = 16 * rawHeaders.length;
  for (const text of rawHeaders) size += text.length;
  return size;
}

/**
 * Whether the text is a host and an optional port (RFC 9110, section 7.2). A URL may have a user
 * before the host and a path after it, so that it can be read as a URL is not enough.
 */
function isHost(text: string): boolean {
  return hostAndPort.test(text) && URL.canParse(`http://${text}`);
}

/** RFC 3986, section 3.2.2. */
const hostAndPort = /^(\[[\da-f:.]+\]|[\w.~!$&'()*+,;=%-]+)(:\d*)?$/i;

/**
 * Returns the host of the request. If `host` and `:authority` differ, they are joined into a text
 * that is not valid in a URL.
 */
function hostOfHttp2(head: RequestHead): string | undefined {
  const authority = headerOf(head, ":authority");
  const host = headerOf(head, "host");
  if (authority === undefined || host === undefined || host === authority) return authority ?? host;
  return `${authority}, ${host}`;
}

/**
 * Only HTTP/2 has pseudo-headers, before all others. Its version alone says nothing: Node's parser
 * of HTTP/1.1 accepts `HTTP/2.0` in a request line.
 */
function isOverHttp2({ rawHeaders, httpVersion }: RequestHead): boolean {
  return httpVersion === "2.0" && rawHeaders[0]?.startsWith(":") === true;
}

/**
 * Whether version and transfer coding tell for certain where the body ends. HTTP/1.0 has no
 * transfer codings, so two servers could disagree about one (RFC 9112, section 6.1).
 */
function isFramedAsHttp1(head: RequestHead): boolean {
  const coding = headerOf(head, "transfer-encoding");
  if (head.httpVersion === "1.0") return coding === undefined;
  return head.httpVersion === "1.1" && (coding === undefined || coding.trim().toLowerCase() === "chunked");
}
