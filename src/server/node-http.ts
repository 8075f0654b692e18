import type { IncomingMessage, ServerResponse } from "node:http";
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import type { HttpResponse } from "../edge/http.ts";

/** What node hands to a request handler, by either protocol: the second is shaped like the first. */
export type NodeRequest = IncomingMessage | Http2ServerRequest;
export type NodeResponse = ServerResponse | Http2ServerResponse;

export function isHttp2Request(req: NodeRequest): req is Http2ServerRequest {
  return req.httpVersionMajor === 2;
}

/** Only HTTP/2's answers know their stream. */
export function isHttp2Response(res: NodeResponse): res is Http2ServerResponse {
  return "stream" in res;
}

/** Whether nobody can be answered any more. Node's answer over HTTP/2 does not say so by itself. */
export function isGone(res: NodeResponse): boolean {
  return isHttp2Response(res) ? res.stream.destroyed : res.destroyed;
}

/**
 * Whether a request that is about to be taken up can still be answered. Its caller may have taken it back, or the
 * parser may have refused what came behind it and said so on the connection.
 */
export function isAnswerable(req: NodeRequest, res: NodeResponse): boolean {
  return !isGone(res) && (isHttp2Response(res) || !req.socket.writableEnded);
}

/** A whole answer, written at once. */
export function send(res: NodeResponse, response: HttpResponse): void {
  writeHead(res, response);
  if (response.trailers === undefined) res.end(response.body);
  else sendWithTrailers(res, response.body, response.trailers);
}

function sendWithTrailers(res: NodeResponse, body: HttpResponse["body"], trailers: readonly string[]): void {
  if (!isHttp2Response(res)) throw new Error("an answer has trailers over HTTP/2 alone");
  const named: Record<string, string> = {};
  for (let at = 0; at + 1 < trailers.length; at += 2) named[trailers[at] ?? ""] = trailers[at + 1] ?? "";
  res.addTrailers(named);
  if (body.length === 0) res.end();
  else res.end(body);
}

/** The same, whole for who reads it, but not yet over for node: the caller of this ends it with `res.end()`. */
export function sendUnended(res: NodeResponse, response: HttpResponse): void {
  writeHead(res, response);
  if (isHttp2Response(res)) res.write(response.body);
  else res.write(response.body);
}

/** The door's array is left as it is. Neither 204 nor 304 has a length (RFC 9110, section 8.6). */
function writeHead(res: NodeResponse, { status, headers, body, trailers }: HttpResponse): void {
  const bytes = typeof body === "string" ? Buffer.byteLength(body) : body.byteLength;
  const hasLength = status !== 204 && status !== 304 && trailers === undefined;
  const all = hasLength ? [...headers, "Content-Length", String(bytes)] : headers;
  if (isHttp2Response(res)) res.writeHead(status, all);
  else res.writeHead(status, all);
}
