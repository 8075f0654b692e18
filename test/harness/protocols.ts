import { type DescMethod, fromJson, type JsonObject, toBinary } from "@bufbuild/protobuf";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import type { ListenerName } from "#src/auth/policy.ts";
import type { Entry } from "#src/metrics/metrics.ts";
import { type Ask, type HttpVersion, http1, http2 } from "./exchange.ts";

/** Part of the queries. It must not be in any line of the log. */
export const secretQuery = "hushhush";

/** A message's body: JSON for the method's input, or bytes that a caller should not send. */
export type Message = { readonly json: JsonObject } | { readonly bytes: Buffer; readonly flags?: number };

export interface CallOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
}

/** A way to call a method: a protocol over a version of HTTP. */
export interface Protocol {
  readonly name: string;
  readonly entry: Entry;
  readonly http: HttpVersion;
  readonly kind: "rest" | "grpc" | "grpc-web" | "connect";
  ask(method: DescMethod, message: Message, options?: CallOptions): Ask;
}

/** A way to run an app: a protocol, and the method that it calls. */
export interface RunProtocol extends Protocol {
  readonly method: DescMethod;
}

function rpc(
  name: string,
  { kind, http, query }: { kind: Exclude<Protocol["kind"], "rest">; http: HttpVersion; query: string },
): Protocol {
  return {
    name,
    entry: kind === "connect" ? "connect" : "grpc",
    http,
    kind,
    ask: (method, message, { headers, timeoutMs } = {}) => ({
      method: "POST",
      path: `${pathOf(method)}${query}`,
      headers: { ...headersOf(kind, method, timeoutMs), ...headers },
      body: bodyOf(kind, method, message),
    }),
  };
}

/** REST for the method whose path has this last part. */
function rest(http: HttpVersion, how: { method: DescMethod; verb: string; accept?: string }): RunProtocol {
  const { method, verb, accept } = how;
  return {
    name: `REST${accept === undefined ? "" : ` with ${accept}`} over ${http.name}`,
    entry: "rest",
    http,
    kind: "rest",
    method,
    ask(asked, message, { headers } = {}) {
      if (asked !== method) throw new Error(`not the method of this path: ${asked.name}`);
      const { appId = "echo", ...body } = "json" in message ? message.json : {};
      return {
        method: "POST",
        path: `/api/apps/${appId}/${verb}`,
        headers: { "content-type": "application/json", ...(accept !== undefined && { accept }), ...headers },
        body: "json" in message ? JSON.stringify(body) : message.bytes,
      };
    },
  };
}

const query = `?q=${secretQuery}`;

/**
 * gRPC is listed twice: a plain unary call has its own handler, and a call with a query goes to
 * Connect's handler.
 */
export const rpcProtocols = [
  rpc("gRPC", { kind: "grpc", http: http2, query: "" }),
  rpc("gRPC by Connect's handler", { kind: "grpc", http: http2, query }),
  rpc("gRPC-Web over HTTP/1.1", { kind: "grpc-web", http: http1, query }),
  rpc("gRPC-Web over HTTP/2", { kind: "grpc-web", http: http2, query }),
  rpc("Connect over HTTP/1.1", { kind: "connect", http: http1, query }),
  rpc("Connect over HTTP/2", { kind: "connect", http: http2, query }),
];

export const listeners = ["public", "internal"] as const satisfies ListenerName[];

const { runApp, streamApp } = RunService.method;
const overBothVersions = [http1, http2];
const streamTypes = ["text/event-stream", "application/x-ndjson"];

const restProtocols: readonly RunProtocol[] = [
  ...overBothVersions.map((http) => rest(http, { method: runApp, verb: "run" })),
  ...streamTypes.flatMap((accept) =>
    overBothVersions.map((http) => rest(http, { method: streamApp, verb: "stream", accept })),
  ),
];

/** A streamed call has one handler, so gRPC is not listed twice. */
const rpcRunProtocols: readonly RunProtocol[] = [
  ...rpcProtocols.map((protocol) => ({ ...protocol, method: runApp })),
  ...rpcProtocols
    .filter(({ name }) => name !== "gRPC by Connect's handler")
    .map((protocol) => ({ ...protocol, name: `StreamApp by ${protocol.name}`, method: streamApp })),
];

/** The protocols that run apps, at once or as a stream, by listener. */
export const runProtocols: Readonly<Record<ListenerName, readonly RunProtocol[]>> = {
  public: [...restProtocols, ...rpcRunProtocols],
  internal: rpcRunProtocols,
};

export function isStreamed({ method }: RunProtocol): boolean {
  return method.methodKind === "server_streaming";
}

export function pathOf({ parent, name }: DescMethod): string {
  return `/${parent.typeName}/${name}`;
}

function headersOf(kind: Protocol["kind"], { methodKind }: DescMethod, timeoutMs: number | undefined) {
  if (kind !== "connect") {
    const timeout = timeoutMs !== undefined && { "grpc-timeout": `${timeoutMs}m` };
    return { "content-type": `application/${kind}`, te: "trailers", ...timeout };
  }
  const type = methodKind === "unary" ? "application/json" : "application/connect+json";
  const timeout = timeoutMs !== undefined && { "connect-timeout-ms": String(timeoutMs) };
  return { "content-type": type, "connect-protocol-version": "1", ...timeout };
}

function bodyOf(kind: Protocol["kind"], method: DescMethod, message: Message): Buffer {
  const flags = "flags" in message ? message.flags : 0;
  if (kind !== "connect")
    return framed("bytes" in message ? message.bytes : binaryOf(method, message), flags);
  const json = "bytes" in message ? message.bytes : Buffer.from(JSON.stringify(message.json));
  return method.methodKind === "unary" ? json : framed(json, flags);
}

function binaryOf({ input }: DescMethod, { json }: { json: JsonObject }): Uint8Array {
  return toBinary(input, fromJson(input, json));
}

export function framed(message: Uint8Array, flags = 0): Buffer {
  const prefix = Buffer.alloc(5);
  prefix[0] = flags;
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}
