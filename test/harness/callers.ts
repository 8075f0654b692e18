import { type JsonObject, type JsonValue, toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { type Code, createClient } from "@connectrpc/connect";
import { type RunAppResponse, RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import type { RunOutput } from "#src/run/runner.ts";
import { detailsOf, ofEachTransport, outcomeOfCall } from "./transports.ts";

/** A request for a run, independent of the protocol. */
export interface RunOrder {
  readonly appId: string;
  /** Not sent if absent. */
  readonly text?: string;
  readonly input?: JsonObject;
  /** The value of the header. Not sent if absent. */
  readonly authorization?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** What the caller gets. `headers` contains the trailers too, if the protocol has them. */
export type RunOutcome =
  | {
      readonly kind: "ok";
      readonly answer: RunOutput & { readonly runId: string; readonly appId: string };
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

/** The fields of an answer, with its output as JSON. */
export function answerIn({ runId, appId, text, output }: RunAppResponse) {
  return { runId, appId, text, output: output && toJson(ValueSchema, output) };
}

/** Connect's own clients, made from the descriptors. */
export const connectCallers = ofEachTransport(({ transport, close }): Caller => {
  const client = createClient(RunService, transport);
  return {
    close,
    async run({ appId, text, input, authorization, headers: more }) {
      const sent = { ...more, ...(authorization !== undefined && { authorization }) };
      const order = { appId, ...(text !== undefined && { text }), ...(input && { input }) };
      const outcome = await outcomeOfCall((options) => client.runApp(order, options), sent);
      const { headers } = outcome;
      if ("answer" in outcome) return { kind: "ok", answer: answerIn(outcome.answer), headers };
      const { code, rawMessage: message } = outcome.error;
      return { kind: "refused", code, message, details: detailsOf(outcome.error), headers };
    },
  };
});
