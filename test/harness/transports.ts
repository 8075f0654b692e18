import { Agent } from "node:http";
import { createRegistry, fromBinary, type JsonValue, toJson } from "@bufbuild/protobuf";
import { type CallOptions, ConnectError, type Transport } from "@connectrpc/connect";
import {
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
  Http2SessionManager,
} from "@connectrpc/connect-node";
import {
  BadRequestSchema,
  ErrorInfoSchema,
  QuotaFailureSchema,
  RetryInfoSchema,
} from "#gen/google/rpc/error_details_pb.ts";
import { bareReasons } from "./reason-of-answer.ts";

/** A transport of Connect's own clients, on connections of its own. */
export interface OpenTransport {
  readonly transport: Transport;
  close(): void;
}

type Http2Options = { baseUrl: string; httpVersion: "2"; sessionManager: Http2SessionManager };

/** Every protocol over each version of HTTP, by its name. */
export const transports = {
  "Connect over HTTP/1.1": (baseUrl: string) =>
    overHttp1((nodeOptions) =>
      createConnectTransport({ baseUrl, httpVersion: "1.1", nodeOptions, useBinaryFormat: false }),
    ),
  "Connect over HTTP/2": (baseUrl: string) => overHttp2(baseUrl, createConnectTransport),
  "gRPC-Web over HTTP/1.1": (baseUrl: string) =>
    overHttp1((nodeOptions) => createGrpcWebTransport({ baseUrl, httpVersion: "1.1", nodeOptions })),
  "gRPC-Web over HTTP/2": (baseUrl: string) => overHttp2(baseUrl, createGrpcWebTransport),
  gRPC: (baseUrl: string) => overHttp2(baseUrl, createGrpcTransport),
};

/** What is made of each transport, by its name. */
export function ofEachTransport<Made>(
  make: (open: OpenTransport) => Made,
): Readonly<Record<string, (url: string) => Made>> {
  return Object.fromEntries(
    Object.entries(transports).map(([name, open]) => [name, (url: string) => make(open(url))]),
  );
}

function overHttp1(make: (nodeOptions: { agent: Agent }) => Transport): OpenTransport {
  const agent = new Agent({ keepAlive: true });
  return { transport: make({ agent }), close: () => agent.destroy() };
}

export function overHttp2(baseUrl: string, make: (options: Http2Options) => Transport): OpenTransport {
  const sessionManager = new Http2SessionManager(baseUrl);
  const transport = make({ baseUrl, httpVersion: "2", sessionManager });
  return { transport, close: () => sessionManager.abort() };
}

/** What came of a call: its answer or its error, and all headers and trailers. */
export async function outcomeOfCall<Answer>(
  call: (options: CallOptions) => Promise<Answer>,
  sent: Readonly<Record<string, string>> = {},
): Promise<{ headers: Headers } & ({ answer: Answer } | { error: ConnectError })> {
  const headers = new Headers();
  const keep = keepIn(headers);
  try {
    return { answer: await call({ headers: sent, onHeader: keep, onTrailer: keep }), headers };
  } catch (thrown) {
    const error = ConnectError.from(thrown);
    keep(error.metadata);
    return { error, headers };
  }
}

export function keepIn(headers: Headers): (some: Headers) => void {
  return (some) => some.forEach((value, name) => void headers.set(name, value));
}

/** The reason in the error's details, or of its code; "" if the client itself ended the call. */
export function reasonOf(error: ConnectError): string {
  return error.findDetails(ErrorInfoSchema)[0]?.reason ?? bareReasons.get(error.code) ?? "";
}

const detailTypes = createRegistry(ErrorInfoSchema, BadRequestSchema, QuotaFailureSchema, RetryInfoSchema);

/** The details of an error, as REST callers see them. */
export function detailsOf({ details }: ConnectError): readonly JsonValue[] {
  return details.map((detail) => ("type" in detail ? detailJson(detail) : null));
}

export function detailJson({ type, value }: { type: string; value: Uint8Array }): JsonValue {
  const desc = detailTypes.getMessage(type);
  if (!desc) throw new Error(`a detail of an unexpected type: ${type}`);
  const fields = toJson(desc, fromBinary(desc, value));
  return { "@type": `type.googleapis.com/${desc.typeName}`, ...(fields as object) };
}
