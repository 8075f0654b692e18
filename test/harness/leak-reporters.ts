import { Agent } from "node:http";
import { connect } from "node:http2";
import { toJson } from "@bufbuild/protobuf";
import { ConnectError, createClient, type Transport } from "@connectrpc/connect";
import {
  compressionGzip,
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
  Http2SessionManager,
} from "@connectrpc/connect-node";
import { ErrorInfoSchema } from "#gen/google/rpc/error_details_pb.ts";
import { KeyService, RevokeLeakedKeyResponseSchema } from "#gen/keyrun/v1/key_service_pb.ts";
import { eventually, whileAnswer } from "./eventually.ts";
import { h2cRequest } from "./h2c-client.ts";
import { bareReasons } from "./refusals/reason-of-answer.ts";

export interface ReportOutcome {
  /** `OK`, or the reason of the refusal. */
  readonly reason: string;
  readonly message: string;
  readonly answer?: { readonly redactedValue?: string; readonly revokeTime?: string };
  /** With the trailers, where the protocol has them. */
  readonly headers: Headers;
}

export type Headings = Readonly<Record<string, string>>;

/** One way to report a leaked key. */
export interface LeakReporter {
  report(value: string, headers?: Headings): Promise<ReportOutcome>;
  close(): void;
}

/** Every way on the public listener, by its name. */
export const leakReporters: Readonly<Record<string, (url: string) => LeakReporter>> = {
  "REST over HTTP/1.1": restReporter,
  "REST over HTTP/2": restH2Reporter,
  "Connect over HTTP/1.1": (baseUrl) => {
    const agent = new Agent({ keepAlive: true });
    const common = { baseUrl, httpVersion: "1.1", nodeOptions: { agent } } as const;
    return rpcReporter(createConnectTransport({ ...common, useBinaryFormat: false }), () => agent.destroy());
  },
  "Connect over HTTP/2": (url) => overHttp2(url, createConnectTransport),
  "gRPC-Web over HTTP/1.1": (baseUrl) => {
    const agent = new Agent({ keepAlive: true });
    const common = { baseUrl, httpVersion: "1.1", nodeOptions: { agent } } as const;
    return rpcReporter(createGrpcWebTransport(common), () => agent.destroy());
  },
  "gRPC-Web over HTTP/2": (url) => overHttp2(url, createGrpcWebTransport),
  gRPC: (url) => overHttp2(url, createGrpcTransport),
  // Compressed calls have no handler of our own.
  "gRPC by Connect's handler": (url) =>
    overHttp2(url, (options) =>
      createGrpcTransport({ ...options, sendCompression: compressionGzip, compressMinBytes: 0 }),
    ),
};

/** Reports again where the report can't be answered now, as its answer says. */
export function reportedBy(reporter: LeakReporter, ...report: Parameters<LeakReporter["report"]>) {
  return eventually(
    () => reporter.report(...report),
    whileAnswer(({ reason }) => reason === "UNAVAILABLE"),
  );
}

export const leakPath = "/api/keys/revoke-leaked";

function restReporter(url: string): LeakReporter {
  return {
    close: () => {},
    async report(value, headers) {
      const answer = await fetch(url + leakPath, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify({ value }),
      });
      return restOutcome(await answer.text(), answer.headers);
    },
  };
}

function restH2Reporter(url: string): LeakReporter {
  const session = connect(url);
  return {
    close: () => session.destroy(),
    async report(value, headers) {
      const asked = { ":method": "POST", ":path": leakPath, "content-type": "application/json", ...headers };
      const answer = await h2cRequest(session, asked, JSON.stringify({ value }));
      const fields = Object.entries(answer.headers).filter(([name]) => !name.startsWith(":"));
      return restOutcome(answer.body, new Headers(fields.map(([name, text]) => [name, String(text)])));
    },
  };
}

function restOutcome(body: string, headers: Headers): ReportOutcome {
  const { error, ...answer } = JSON.parse(body);
  if (error) return { reason: error.code.toUpperCase(), message: error.message, headers };
  return { reason: "OK", message: "", answer, headers };
}

function overHttp2(
  baseUrl: string,
  make: (options: { baseUrl: string; httpVersion: "2"; sessionManager: Http2SessionManager }) => Transport,
): LeakReporter {
  const sessionManager = new Http2SessionManager(baseUrl);
  return rpcReporter(make({ baseUrl, httpVersion: "2", sessionManager }), () => sessionManager.abort());
}

function rpcReporter(transport: Transport, close: () => void): LeakReporter {
  const client = createClient(KeyService, transport);
  return {
    close,
    async report(value, sent) {
      const headers = new Headers();
      const keep = (some: Headers) => some.forEach((text, name) => void headers.set(name, text));
      const options = { headers: { ...sent }, onHeader: keep, onTrailer: keep };
      try {
        const answer = await client.revokeLeakedKey({ value }, options);
        return { reason: "OK", message: "", answer: toJson(RevokeLeakedKeyResponseSchema, answer), headers };
      } catch (thrown) {
        const error = ConnectError.from(thrown);
        keep(error.metadata);
        const [info] = error.findDetails(ErrorInfoSchema);
        const reason = info?.reason ?? bareReasons.get(error.code) ?? "";
        return { reason, message: error.rawMessage, headers };
      }
    },
  };
}
