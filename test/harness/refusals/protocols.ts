import { type DescMethod, fromJson, type JsonObject, toBinary } from "@bufbuild/protobuf";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import type { ListenerName } from "#src/auth/policy.ts";
import type { Entry } from "#src/metrics.ts";
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

function rest(http: HttpVersion): Protocol {
  return {
    name: `REST over ${http.name}`,
    entry: "rest",
    http,
    kind: "rest",
    ask(method, message, { headers } = {}) {
      if (method !== RunService.method.runApp) throw new Error("only runs have a REST form");
      const { appId = "echo", ...body } = "json" in message ? message.json : {};
      return {
        method: "POST",
        path: `/api/apps/${appId}/run`,
        headers: { "content-type": "application/json", ...headers },
        body: "json" in message ? JSON.stringify(body) : message.bytes,
      };
    },
  };
}

const query = `?q=${secretQuery}`;

const restProtocols = [rest(http1), rest(http2)];

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

/** The protocols that run apps, by listener. */
export const runProtocols: Readonly<Record<ListenerName, readonly Protocol[]>> = {
  public: [...restProtocols, ...rpcProtocols],
  internal: rpcProtocols,
};

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

function framed(message: Uint8Array, flags = 0): Buffer {
  const prefix = Buffer.alloc(5);
  prefix[0] = flags;
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}
