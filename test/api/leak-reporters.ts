import { connect } from "node:http2";
import { toJson } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { compressionGzip, createGrpcTransport } from "@connectrpc/connect-node";
import { KeyService, RevokeLeakedKeyResponseSchema } from "#gen/keyrun/v1/key_service_pb.ts";
import { eventually, whileAnswer } from "../harness/eventually.ts";
import { h2cRequest } from "../harness/h2c-client.ts";
import {
  type OpenTransport,
  ofEachTransport,
  outcomeOfCall,
  overHttp2,
  reasonOf,
} from "../harness/transports.ts";

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
  ...ofEachTransport(rpcReporter),
  // Compressed calls have no handler of our own.
  "gRPC by Connect's handler": (url) =>
    rpcReporter(
      overHttp2(url, (options) =>
        createGrpcTransport({ ...options, sendCompression: compressionGzip, compressMinBytes: 0 }),
      ),
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

function rpcReporter({ transport, close }: OpenTransport): LeakReporter {
  const client = createClient(KeyService, transport);
  return {
    close,
    async report(value, sent) {
      const outcome = await outcomeOfCall((options) => client.revokeLeakedKey({ value }, options), sent);
      const { headers } = outcome;
      if ("error" in outcome) {
        return { reason: reasonOf(outcome.error), message: outcome.error.rawMessage, headers };
      }
      const answer = toJson(RevokeLeakedKeyResponseSchema, outcome.answer);
      return { reason: "OK", message: "", answer, headers };
    },
  };
}
