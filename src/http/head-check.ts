import { fail, type Refusal } from "../refusal/refusal.ts";
import { countOf, headerOf, type RequestHead } from "./request-head.ts";

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
