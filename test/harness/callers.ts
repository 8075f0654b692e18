import { Agent } from "node:http";
import { createRegistry, fromBinary, type JsonValue, toJson } from "@bufbuild/protobuf";
import { type Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
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
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";

/** A request for a run, independent of the protocol. */
export interface RunOrder {
  readonly appId: string;
  /** Not sent if absent. */
  readonly text?: string;
  /** The value of the header. Not sent if absent. */
  readonly authorization?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** What the caller gets. `headers` contains the trailers too, if the protocol has them. */
export type RunOutcome =
  | {
      readonly kind: "ok";
      readonly answer: { readonly runId: string; readonly appId: string; readonly text: string };
      readonly headers: Headers;
    }
  | {
      readonly kind: "refused";
      readonly code: Code;
      readonly message: string;
      /** In JSON, each with its `@type`. */
      readonly details: readonly JsonValue[];
      readonly headers: Headers;
      /** Absent if the client does not show it. */
      readonly httpStatus?: number;
    };

/** One way to run an app: a protocol, a version of HTTP and a client library. */
export interface Caller {
  run(order: RunOrder): Promise<RunOutcome>;
  close(): void;
}

/** Makes a caller of the server at this URL. */
export type CallerMaker = (url: string) => Caller;

/** Connect's own clients, made from the descriptors. */
export const connectCallers: Readonly<Record<string, CallerMaker>> = {
  "Connect over HTTP/1.1": (url) => {
    const agent = new Agent({ keepAlive: true });
    const transport = createConnectTransport({
      baseUrl: url,
      httpVersion: "1.1",
      nodeOptions: { agent },
      useBinaryFormat: false,
    });
    return connectCaller(transport, () => agent.destroy());
  },
  "Connect over HTTP/2": (url) => overHttp2(url, (common) => createConnectTransport(common)),
  "gRPC-Web over HTTP/1.1": (url) => {
    const agent = new Agent({ keepAlive: true });
    const transport = createGrpcWebTransport({ baseUrl: url, httpVersion: "1.1", nodeOptions: { agent } });
    return connectCaller(transport, () => agent.destroy());
  },
  "gRPC-Web over HTTP/2": (url) => overHttp2(url, (common) => createGrpcWebTransport(common)),
  gRPC: (url) => overHttp2(url, (common) => createGrpcTransport(common)),
};

function overHttp2(
  url: string,
  make: (common: {
    baseUrl: string;
    httpVersion: "2";
    sessionManager: Http2SessionManager;
    useBinaryFormat: true;
  }) => Transport,
): Caller {
  const sessionManager = new Http2SessionManager(url);
  const transport = make({ baseUrl: url, httpVersion: "2", sessionManager, useBinaryFormat: true });
  return connectCaller(transport, () => sessionManager.abort());
}

function connectCaller(transport: Transport, close: () => void): Caller {
  const client = createClient(RunService, transport);
  return {
    close,
    async run({ appId, text, authorization, headers: sent }) {
      const headers = new Headers();
      const keep = (some: Headers) => some.forEach((value, name) => void headers.set(name, value));
      try {
        const answer = await client.runApp(
          { appId, ...(text !== undefined && { text }) },
          {
            headers: { ...sent, ...(authorization !== undefined && { authorization }) },
            onHeader: keep,
            onTrailer: keep,
          },
        );
        return { kind: "ok", answer, headers };
      } catch (thrown) {
        const error = ConnectError.from(thrown);
        keep(error.metadata);
        const details = error.details.map((detail) => ("type" in detail ? detailJson(detail) : null));
        return { kind: "refused", code: error.code, message: error.rawMessage, details, headers };
      }
    },
  };
}

const detailTypes = createRegistry(ErrorInfoSchema, BadRequestSchema, QuotaFailureSchema, RetryInfoSchema);

/** A detail of a status, as REST callers see it. */
export function detailJson({ type, value }: { type: string; value: Uint8Array }): JsonValue {
  const desc = detailTypes.getMessage(type);
  if (!desc) throw new Error(`a detail of an unexpected type: ${type}`);
  const fields = toJson(desc, fromBinary(desc, value));
  return { "@type": `type.googleapis.com/${desc.typeName}`, ...(fields as object) };
}
