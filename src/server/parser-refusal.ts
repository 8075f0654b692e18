import { STATUS_CODES } from "node:http";
import type { Http2ServerRequest } from "node:http2";
import { refusalResponse } from "../edge/refusal-response.ts";
import { fail, type Refusal } from "../error.ts";
import { isHttp2Request, isHttp2Response, type NodeRequest, type NodeResponse, send } from "./node-http.ts";
import type { TransportLimits } from "./transport-limits.ts";

/**
 * What a caller is told of node's error about an HTTP/1.1 connection; undefined where it is no fault of a request
 * (a reset, a broken handshake), and nobody would read an answer.
 */
export function refusalOfParserError(code: string): Refusal | undefined {
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return fail("REQUEST_TIMEOUT");
  if (code === "HPE_HEADER_OVERFLOW") return fail("HEADERS_TOO_LARGE");
  return code.startsWith("HPE_") ? fail("MALFORMED_REQUEST") : undefined;
}

/**
 * Finds what node lets through and we do not: more headers than may be; no host, two, or one that no URL can have
 * (RFC 9112, section 3.2; RFC 9113, section 8.3.1), which only HTTP/1.0 may leave out; and a transfer coding other
 * than chunked, which nobody here would undo (RFC 9112, section 6.1).
 */
export function createHeadCheck(limits: TransportLimits): (req: NodeRequest) => Refusal | undefined {
  // Callers name the same few hosts; the last good one is not parsed again.
  let goodHost: string | undefined;
  return (req) => {
    if (req.rawHeaders.length > 2 * limits.headersMax) return fail("HEADERS_TOO_LARGE");
    if (isHttp2Request(req)) {
      if (listSize(req.rawHeaders) > limits.headerBytesMax) return fail("HEADERS_TOO_LARGE");
      if (isTwofold(req)) return fail("MALFORMED_REQUEST");
    } else if (!isPlainOrChunked(req.headers["transfer-encoding"])) return fail("MALFORMED_REQUEST");
    const host = hostOf(req);
    if (host === undefined) return req.httpVersion === "1.0" ? undefined : fail("MALFORMED_REQUEST");
    if (host === goodHost) return undefined;
    if (!isHost(host)) return fail("MALFORMED_REQUEST");
    goodHost = host;
    return undefined;
  };
}

/**
 * The size of a header list as RFC 9113 counts it (section 6.5.2). What HTTP/2's own bound is holds only once the
 * client has acknowledged it, which its first requests need not wait for.
 */
function listSize(rawHeaders: readonly string[]): number {
  let size = 16 * rawHeaders.length;
  for (const text of rawHeaders) size += text.length;
  return size;
}

/**
 * Two types, or a host beside another authority. Over HTTP/1.1 node joins what comes twice, and two are none that
 * anybody knows; over HTTP/2 it keeps the first, without a word.
 */
function isTwofold({ rawHeaders, headers }: Http2ServerRequest): boolean {
  let types = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) if (rawHeaders[at] === "content-type") types += 1;
  const { host, ":authority": authority = host } = headers;
  return types > 1 || (host !== undefined && host !== authority);
}

function isPlainOrChunked(coding: string | undefined): boolean {
  return coding === undefined || coding.trim().toLowerCase() === "chunked";
}

/** Whether a URL can be made of the request, as Connect does for each: without, it throws. */
export function namesHost(req: NodeRequest): boolean {
  const host = hostOf(req);
  return host !== undefined && isHost(host);
}

function hostOf(req: NodeRequest): string | undefined {
  return isHttp2Request(req) ? req.authority : req.headers.host;
}

function isHost(host: string): boolean {
  return URL.canParse(`http://${host}`);
}

/** The refusal on a connection whose request never became one, as bytes. The connection closes after it. */
export function refusalBytes(
  refusal: Refusal,
  { requestId, unixMs }: { requestId: string; unixMs: number },
): string {
  const { status, headers, body } = refusalResponse(refusal, bare(requestId));
  const lines = [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`];
  for (let at = 0; at < headers.length; at += 2) lines.push(`${headers[at]}: ${headers[at + 1]}`);
  lines.push(`Date: ${new Date(unixMs).toUTCString()}`, `Content-Length: ${Buffer.byteLength(body)}`);
  return `${lines.join("\r\n")}\r\nConnection: close\r\n\r\n${body}`;
}

/** The same on a request that node did take; over HTTP/1.1 its connection closes after it. */
export function refuse(res: NodeResponse, refusal: Refusal, requestId: string): void {
  if (!isHttp2Response(res)) res.shouldKeepAlive = false;
  send(res, refusalResponse(refusal, bare(requestId)));
}

/** Of a request that can't be read, nothing is believed: neither its id nor what it accepts. */
function bare(requestId: string) {
  return { requestId, accept: undefined, rateHeaders: [] };
}
