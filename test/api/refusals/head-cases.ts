import type { ListenerName } from "#src/auth/policy.ts";
import type { Entry } from "#src/metrics/metrics.ts";
import type { Reason } from "#src/refusal/reasons.ts";
import { transportLimits } from "#src/server/transport.ts";
import { http2, type WireAnswer } from "../../harness/exchange.ts";
import { listeners, secretQuery } from "../../harness/protocols.ts";
import { answersIn, rawSocket } from "../../harness/raw-socket.ts";
import type { RefusalCase } from "./refusal-case.ts";
import type { RefusalWorld } from "./world.ts";

/**
 * The entry for refusals of bytes that never became a request: the one that the listener mostly
 * serves.
 */
export const usualEntry: Readonly<Record<ListenerName, Entry>> = { public: "rest", internal: "grpc" };

/** A request over HTTP/1.1, given as bytes. */
interface HeadRefusal {
  readonly reason: Reason;
  readonly what: string;
  /** The request's name in the log: the parser's error if the bytes never became a request. */
  readonly request: string;
  readonly bytes: (world: RefusalWorld) => string;
  /** The entry if it is not the listener's usual one, because the protocol is known. */
  readonly entry?: Entry;
}

const path = `/api/apps/echo/run?q=${secretQuery}`;
const runPath = `/keyrun.v1.RunService/RunApp?q=${secretQuery}`;
const streamPath = `/keyrun.v1.RunService/StreamApp?q=${secretQuery}`;
const connect = "Connect-Protocol-Version: 1\r\n";
const chunked = "Transfer-Encoding: chunked\r\n\r\n";
const get = `GET ${path} HTTP/1.1\r\n`;
const known = { request: "GET /api/apps/{app_id}/run" };
const malformed = "MALFORMED_REQUEST" as const;
const headers = (count: number) => "X-A: b\r\n".repeat(count);
const upload = ({ key }: RefusalWorld, target = path, type = "application/json") =>
  `POST ${target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key.value}\r\nContent-Type: ${type}\r\n`;

/** Requests with a body, each of which a handler of its own reads. */
const uploads: readonly { what: string; target: string; type: string; only?: ListenerName }[] = [
  { what: "a run by REST", target: path, type: "application/json", only: "public" },
  { what: "a run by Connect", target: runPath, type: "application/json" },
  { what: "a run by gRPC-Web", target: runPath, type: "application/grpc-web" },
  {
    what: "a stream by REST",
    target: `/api/apps/echo/stream?q=${secretQuery}`,
    type: "application/json",
    only: "public",
  },
  { what: "a stream by Connect", target: streamPath, type: "application/connect+json" },
  { what: "a stream by gRPC-Web", target: streamPath, type: "application/grpc-web" },
];

const byHttp1: readonly HeadRefusal[] = [
  {
    reason: malformed,
    what: "a bad name of a header",
    request: "HPE_INVALID_HEADER_TOKEN",
    bytes: ({ key }) => `${get}Host: a\r\nAuthorization: Bearer ${key.value}\r\nBad Name: x\r\n\r\n`,
  },
  {
    reason: malformed,
    what: "no HTTP",
    request: "HPE_INVALID_METHOD",
    bytes: () => "\u0016\u0003\u0001hello",
  },
  {
    reason: malformed,
    what: "another version",
    request: "HPE_INVALID_VERSION",
    bytes: () => `GET ${path} HTTP/9\r\n\r\n`,
  },
  {
    reason: "HEADERS_TOO_LARGE",
    what: "by size",
    request: "HPE_HEADER_OVERFLOW",
    bytes: () => `${get}Host: a\r\nX: ${"x".repeat(transportLimits.headerBytesMax)}\r\n\r\n`,
  },
  {
    ...known,
    reason: "HEADERS_TOO_LARGE",
    what: "by number",
    bytes: () => `${get}Host: a\r\n${headers(transportLimits.headersMax)}\r\n`,
  },
  { ...known, reason: malformed, what: "no Host", bytes: () => `${get}\r\n` },
  { ...known, reason: malformed, what: "two Hosts", bytes: () => `${get}Host: a\r\nHost: b\r\n\r\n` },
  { ...known, reason: malformed, what: "a Host of no URL", bytes: () => `${get}Host: a b\r\n\r\n` },
  {
    ...known,
    reason: malformed,
    what: "a coding that nobody undoes",
    bytes: () => `${get}Host: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
  },
  {
    reason: malformed,
    what: "two lengths",
    request: "HPE_UNEXPECTED_CONTENT_LENGTH",
    bytes: (world) => `${upload(world)}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd`,
  },
  ...uploads.map(({ what, target, type }) => ({
    reason: malformed,
    what: `${what} in rubbish for chunks`,
    request: "HPE_INVALID_CHUNK_SIZE",
    bytes: (world: RefusalWorld) => `${upload(world, target, type)}${connect}${chunked}rubbish\r\n`,
  })),
  {
    reason: malformed,
    what: "an RPC by HTTP/1.0 without a Host",
    request: "POST /keyrun.v1.RunService/RunApp",
    entry: "connect",
    bytes: () => `POST ${runPath} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}`,
  },
];

/** The same over HTTP/2, where each of them has the form of a request. */
const byHttp2: readonly {
  readonly reason: Reason;
  readonly what: string;
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly host?: string;
}[] = [
  { reason: "HEADERS_TOO_LARGE", what: "one too many", headers: numbered(transportLimits.headersMax - 3) },
  { reason: "HEADERS_TOO_LARGE", what: "many too many", headers: numbered(200) },
  { reason: malformed, what: "two types", headers: { "content-type": ["application/grpc", "text/plain"] } },
  { reason: malformed, what: "a host beside another authority", headers: { host: "other" }, host: "a" },
  { reason: malformed, what: "a host of no URL", headers: {}, host: "a:99999" },
];

/** Returns so many headers, in addition to the four that each request over HTTP/2 has. */
function numbered(count: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: count }, (_, at) => [`x-${at}`, "b"]));
}

export const headCases: readonly RefusalCase[] = listeners.flatMap((listener) => [
  ...byHttp1.map(({ reason, what, request, entry = usualEntry[listener], bytes }) => ({
    reason,
    what,
    listener,
    protocol: "HTTP/1.1",
    entry,
    request,
    send: (world: RefusalWorld) => sendBytes(world.url(listener), bytes(world)),
  })),
  ...uploads
    .filter(({ only = listener }) => only === listener)
    .map(({ what, target, type }) => ({
      reason: malformed,
      what: `${what} in rubbish for chunks, once its handler waits for them`,
      listener,
      protocol: "HTTP/1.1",
      entry: usualEntry[listener],
      request: "HPE_INVALID_CHUNK_SIZE",
      send: (world: RefusalWorld) =>
        sendBytes(
          world.url(listener),
          `${upload(world, target, type)}${connect}Expect: 100-continue\r\n${chunked}`,
          "rubbish\r\n",
        ),
    })),
  ...byHttp2.map(({ reason, what, ...ask }) => ({
    reason,
    what,
    listener,
    protocol: "HTTP/2",
    entry: usualEntry[listener],
    ...known,
    send: (world: RefusalWorld) => http2.exchange(world.url(listener), { method: "GET", path, ...ask }),
  })),
]);

/**
 * Sends the bytes unchanged, and waits for one answer and the end of the connection. `later` is
 * sent after the 100 that the first bytes ask for.
 */
export async function sendBytes(url: string, bytes: string, later?: string): Promise<WireAnswer> {
  const client = rawSocket({ port: Number(new URL(url).port) });
  client.send(Buffer.from(bytes, "latin1"));
  const goOn = "HTTP/1.1 100 Continue\r\n\r\n";
  if (later !== undefined) {
    await client.until((heard) => heard === goOn);
    client.send(Buffer.from(later, "latin1"));
  }
  const heard = await client.closed();
  const [answer, ...others] = answersIn(later === undefined ? heard : heard.slice(goOn.length));
  if (answer === undefined || others.length > 0) throw new Error(`${others.length + 1} answers, or none`);
  const { status, headers, body } = answer;
  return { status, headers: Object.fromEntries(headers), trailers: {}, body: Buffer.from(body, "latin1") };
}
