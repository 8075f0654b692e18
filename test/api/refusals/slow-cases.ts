import type { ListenerName } from "#src/auth/policy.ts";
import { http1, http2 } from "../../harness/exchange.ts";
import { listeners, type RunProtocol, runProtocols } from "../../harness/protocols.ts";
import { sendBytes, usualEntry } from "./head-cases.ts";
import { loggedRequest, type RefusalCase } from "./refusal-case.ts";

/**
 * Requests that are refused because they arrive too slowly. Each takes as long as Keyrun waits for
 * it, so all are sent at once. A slow body over HTTP/2 ends with its stream, without an answer.
 */
export const slowCases: readonly RefusalCase[] = listeners.flatMap((listener) => [
  {
    reason: "REQUEST_TIMEOUT",
    what: "a slow head",
    listener,
    protocol: "HTTP/1.1",
    entry: usualEntry[listener],
    request: "ERR_HTTP_REQUEST_TIMEOUT",
    send: ({ url }) => sendBytes(url(listener), "GET / HTTP/1.1\r\nHost: a\r\n"),
  } satisfies RefusalCase,
  ...runProtocols[listener].map((protocol) => slowBody(listener, protocol)),
]);

function slowBody(listener: ListenerName, protocol: RunProtocol): RefusalCase {
  const overHttp2 = protocol.http === http2;
  // The longest time of a unary call is about as long as that of a body. With a shorter deadline it
  // is certain which of them is over first.
  const timed = protocol.name === "gRPC";
  const ask = protocol.ask(protocol.method, { json: { appId: "echo" } }, timed ? { timeoutMs: 500 } : {});
  const cutOff = overHttp2 ? "CANCELLED" : "REQUEST_TIMEOUT";
  return {
    reason: timed ? "DEADLINE_EXCEEDED" : cutOff,
    what: "a slow body",
    listener,
    protocol: protocol.name,
    entry: overHttp2 ? protocol.entry : usualEntry[listener],
    request: overHttp2 ? loggedRequest(ask.method, ask.path) : "ERR_HTTP_REQUEST_TIMEOUT",
    send: ({ key, url }, requestId) =>
      (overHttp2 ? http2 : http1).stall(url(listener), {
        ...ask,
        headers: { ...ask.headers, authorization: `Bearer ${key.value}`, "x-request-id": requestId },
      }),
  };
}
