// A fetch handler as a listener of Node's HTTP server.

import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { FetchHandler } from "./fetch-handler.ts";

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

/**
 * Answers with the handler, and hands what no rule takes, unread, to `next`. A caller that leaves
 * aborts the request's signal.
 */
export function createNodeListener(handle: FetchHandler, next: Listener): Listener {
  return (incoming, outgoing) => {
    const left = new AbortController();
    outgoing.once("close", () => left.abort());
    const request = requestOf(incoming, left.signal);
    if (request === undefined) return next(incoming, outgoing);
    handle(request)
      .then((response) => (response ? write(response, outgoing) : next(incoming, outgoing)))
      .catch(() => outgoing.destroy());
  };
}

/** Undefined for what fetch has no request for, such as CONNECT or a target that is no path. */
function requestOf(incoming: IncomingMessage, signal: AbortSignal): Request | undefined {
  const { method = "GET", url = "", headers, rawHeaders } = incoming;
  if (!url.startsWith("/")) return undefined;
  const sent = new Headers();
  for (let at = 0; at < rawHeaders.length; at += 2)
    sent.append(rawHeaders[at] ?? "", rawHeaders[at + 1] ?? "");
  // Not read before the handler reads it, so that `next` can.
  const body = method === "GET" || method === "HEAD" ? null : bodyOf(incoming);
  try {
    const target = `http://${headers.host ?? "localhost"}${url}`;
    return new Request(target, { method, headers: sent, body, signal, duplex: "half" });
  } catch {
    return undefined;
  }
}

/** A handler that stops in the middle of a body still answers, so the connection stays. */
function bodyOf(incoming: IncomingMessage): ReadableStream<Uint8Array> {
  return ReadableStream.from<Uint8Array>(incoming.iterator({ destroyOnReturn: false }));
}

async function write(response: Response, outgoing: ServerResponse): Promise<void> {
  outgoing.statusCode = response.status;
  for (const [name, value] of response.headers) outgoing.appendHeader(name, value);
  if (response.body === null) outgoing.end();
  else await pipeline(Readable.fromWeb(response.body), outgoing);
}
