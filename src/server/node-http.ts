/**
 * Node's requests and responses, where HTTP/1.1 and HTTP/2 differ: the head as a plain value, what
 * has become of a response, and how an answer is written.
 */

import type { IncomingMessage, ServerResponse } from "node:http";
import { constants, type Http2ServerRequest, type Http2ServerResponse } from "node:http2";
import type { HttpResponse, Trailers, WholeResponse } from "../http/handler.ts";
import { pairsOf } from "../http/headers.ts";
import type { RequestHead } from "../http/request-head.ts";
import type { RequestNotes } from "../http/request-notes.ts";
import type { UnreadAnswer } from "./unread-answers.ts";

/**
 * The request and the response that Node passes to a listener. Those of HTTP/2 have the form of
 * those of HTTP/1.1.
 */
export type NodeRequest = IncomingMessage | Http2ServerRequest;
export type NodeResponse = ServerResponse | Http2ServerResponse;

/** One of Node's requests, with its head, its response, and what of that is not read. */
export interface Incoming {
  readonly head: RequestHead;
  readonly req: NodeRequest;
  readonly res: NodeResponse;
  readonly unread: UnreadAnswer;
  /** Undefined if requests are not watched. */
  readonly notes: RequestNotes | undefined;
  /**
   * Called once when the response is closed. A listener of Node's event would cost more, beside the
   * one that every request has.
   */
  onClose: (() => void) | undefined;
}

/** Returns the head of Node's request as a plain value. */
export function headOf(req: NodeRequest): RequestHead {
  const { method = "", url = "/", httpVersion, rawHeaders } = req;
  const target = url.startsWith("/") ? url : originForm(url);
  return { method, target, httpVersion, rawHeaders, peer: peerOf(req) };
}

/**
 * RFC 9112, section 3.2: an absolute target is accepted too. `*` becomes a path that no handler
 * serves.
 */
function originForm(target: string): string {
  const rest = target.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, "");
  return rest.startsWith("/") ? rest : `/${rest}`;
}

/**
 * HTTP/2's sockets are behind `Proxy` objects of Node. One access to them costs as much as reading
 * the whole head, so the address is kept.
 */
const peersOfSessions = new WeakMap<object, string>();

function peerOf(req: NodeRequest): string {
  if (!isHttp2Request(req)) return req.socket.remoteAddress ?? "";
  const { session } = req.stream;
  if (session === undefined) return "";
  const known = peersOfSessions.get(session);
  if (known !== undefined) return known;
  const peer = session.destroyed ? "" : (session.socket.remoteAddress ?? "");
  peersOfSessions.set(session, peer);
  return peer;
}

/**
 * Only HTTP/2's requests have a stream. The version says nothing: it is the one of the request
 * line, and Node's parser of HTTP/1.1 accepts `HTTP/2.0` there.
 */
export function isHttp2Request(req: NodeRequest): req is Http2ServerRequest {
  return "stream" in req;
}

/** Only HTTP/2's responses have a stream. */
export function isHttp2Response(res: NodeResponse): res is Http2ServerResponse {
  return "stream" in res;
}

/** Whether the caller can no longer be answered. Node's HTTP/2 response does not say so itself. */
export function isGone(res: NodeResponse): boolean {
  return isHttp2Response(res) ? res.stream.destroyed : res.destroyed;
}

/** Whether the whole answer was passed on. A stream of HTTP/2 that is reset finishes, too. */
export function isSent(res: NodeResponse): boolean {
  if (!isHttp2Response(res)) return res.writableFinished;
  return res.stream.writableFinished && !res.stream.aborted;
}

/**
 * Whether a request can still be answered before its handler starts. The caller may have cancelled
 * it, or the parser may have refused the bytes after it and have answered on the connection.
 */
export function isAnswerable(req: NodeRequest, res: NodeResponse): boolean {
  return !isGone(res) && (isHttp2Response(res) || req.socket.writable);
}

export function isWhole(response: HttpResponse): response is WholeResponse {
  return typeof response.body === "string" || response.body instanceof Uint8Array;
}

const refusedByParser = new WeakSet<NodeResponse>();

/**
 * Notes that the parser refused the rest of a request whose handler is running. The connection was
 * answered, and that refusal was counted.
 */
export function noteParserRefusal(res: NodeResponse): void {
  refusedByParser.add(res);
}

/**
 * Whether the parser's refusal was counted already, so that the handler's outcome must not be
 * counted.
 */
export function isRefusedByParser(res: NodeResponse): boolean {
  return refusedByParser.has(res);
}

const answeredRequests = new WeakMap<object, IncomingMessage>();

/** Notes that a request over HTTP/1.1 was answered, perhaps before its body has arrived. */
export function noteAnswered(res: NodeResponse): void {
  if (!isHttp2Response(res) && !res.req.complete) answeredRequests.set(res.req.socket, res.req);
}

/**
 * Whether the parser still reads the body of a request that is answered. A fault in that body must
 * not be answered too: the caller would take it for the answer to its next request.
 */
export function readsAnsweredRequest(socket: object): boolean {
  return answeredRequests.get(socket)?.complete === false;
}

const lately = new WeakSet<NodeResponse>();

/** Notes that the caller has read a part of a streamed answer. */
export function noteRead(res: NodeResponse): void {
  lately.add(res);
}

/** Whether the caller has read a part since this was asked for the last time. */
export function hasReadLately(res: NodeResponse): boolean {
  return lately.delete(res);
}

/**
 * Writes the whole answer at once, and counts it as unread. With `ended` false it is not ended for
 * Node: call `res.end()` later.
 */
export function sendWhole(
  { res, unread, notes }: Incoming,
  response: WholeResponse,
  { ended = true } = {},
): void {
  if (ended) send(res, response);
  else {
    writeHead(res, response, lengthOf(response));
    if (isHttp2Response(res)) res.write(response.body);
    else {
      // Node writes nothing of an answer to HEAD before its end, not even the head.
      res.flushHeaders();
      res.write(response.body);
    }
  }
  // A head alone passes a closed window of HTTP/2, so it does not wait.
  if (response.body.length > 0) unread.add(response.body.length);
  if (notes !== undefined) notes.bytes += Buffer.byteLength(response.body);
}

/** From this length on, a text is encoded before it is passed to Node. */
const longTextCharacters = 16 * 1024;

/**
 * Returns the response with bytes instead of a long text, so that it is known how much memory it
 * takes. Node would encode the text itself, into memory of the same size.
 */
export function withBytes(response: WholeResponse): WholeResponse {
  const { body } = response;
  if (typeof body !== "string" || body.length < longTextCharacters) return response;
  return { ...response, body: Buffer.from(body) };
}

/** Returns the response without its body. */
export function withoutBody({ status, headers, trailers }: WholeResponse): WholeResponse {
  return { status, headers, body: "", ...(trailers && { trailers }) };
}

function send(res: NodeResponse, response: WholeResponse): void {
  if (isHttp2Response(res) && response.body.length === 0 && response.trailers === undefined) {
    sendHeadAlone(res, response);
    return;
  }
  if (isHttp2Response(res) && response.trailers === undefined) respondWithoutTrailers(res, response);
  else writeHead(res, response, lengthOf(response));
  if (response.trailers !== undefined) addTrailers(res, response.trailers);
  if (response.body.length === 0) res.end();
  else res.end(response.body);
}

/**
 * Writes the head. The last frame of the body then has the end of the stream: after `writeHead`
 * Node would leave room for trailers, and send that end later, in a frame of its own.
 */
function respondWithoutTrailers(res: Http2ServerResponse, response: WholeResponse): void {
  const { status, headers } = response;
  const named: Record<string, string | string[]> = { ":status": String(status) };
  for (const [asWritten, value] of pairsOf(headers)) {
    const name = asWritten.toLowerCase();
    const known = named[name];
    named[name] = known === undefined ? value : [known, value].flat();
  }
  const length = lengthOf(response);
  if (length !== undefined) named["content-length"] = String(length);
  res.statusCode = status;
  res.stream.respond(named);
}

/**
 * Ends the stream with its HEADERS. After `writeHead` Node would send an empty DATA frame too, and
 * some clients of gRPC would not take the head for trailers.
 */
function sendHeadAlone(res: Http2ServerResponse, { status, headers }: WholeResponse): void {
  res.statusCode = status;
  try {
    for (let at = 0; at + 1 < headers.length; at += 2) {
      res.appendHeader(headers[at] ?? "", headers[at + 1] ?? "");
    }
  } catch (cause) {
    // Another answer may follow, without the headers of this one.
    for (const name of res.getHeaderNames()) res.removeHeader(name);
    throw cause;
  }
  res.end();
}

/** Over HTTP/1.1 trailers are sent only if the answer has no length. */
export function addTrailers(res: NodeResponse, trailers: Trailers): void {
  const flat = typeof trailers === "function" ? trailers() : trailers;
  const named: Record<string, string> = {};
  for (let at = 0; at + 1 < flat.length; at += 2) named[flat[at] ?? ""] = flat[at + 1] ?? "";
  res.addTrailers(named);
}

/** 204 and 304 have no length (RFC 9110, section 8.6), and neither does an answer with trailers. */
function lengthOf({ status, body, trailers }: WholeResponse): number | undefined {
  if (status === 204 || status === 304 || trailers !== undefined) return undefined;
  return typeof body === "string" ? Buffer.byteLength(body) : body.byteLength;
}

/** Ends a response that can't be completed, so that its reader sees an error. */
export function cutOff(res: NodeResponse): void {
  if (isHttp2Response(res)) res.stream.close(constants.NGHTTP2_INTERNAL_ERROR);
  else res.destroy();
}

/** Writes status and headers. Does not change the handler's array of headers. */
export function writeHead(
  res: NodeResponse,
  { status, headers }: HttpResponse,
  length: number | undefined,
): void {
  const all = length === undefined ? headers : [...headers, "Content-Length", String(length)];
  if (isHttp2Response(res)) res.writeHead(status, all);
  else {
    res.writeHead(status, all);
    // Behind another answer on its connection, Node would put the head of bytes before all that
    // waits to be written, and so before a `100 Continue`.
    if (res.socket === null) res.flushHeaders();
  }
}
