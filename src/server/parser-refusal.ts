import { STATUS_CODES } from "node:http";
import { refusalResponse } from "../edge/refusal-response.ts";
import { fail, type Refusal } from "../error.ts";
import { isHttp2Response, type NodeRequest, type NodeResponse, send } from "./node-http.ts";
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

/** What node lets through and we do not: no Host (RFC 9112, section 3.2), and more headers than may be. */
export function refusalOfHead(req: NodeRequest, limits: TransportLimits): Refusal | undefined {
  if (req.rawHeaders.length > 2 * limits.headersMax) return fail("HEADERS_TOO_LARGE");
  if (req.httpVersion === "1.1" && req.headers.host === undefined) return fail("MALFORMED_REQUEST");
  return undefined;
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
