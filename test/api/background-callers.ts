import { create, type JsonObject, toJson } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { type CallOptions, createClient } from "@connectrpc/connect";
import { type Run, type RunJson, RunSchema, RunState } from "#gen/keyrun/v1/run_pb.ts";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { type OpenTransport, outcomeOfCall, reasonOf, transports } from "../harness/transports.ts";

/** A run as it was answered, or the reason of the refusal; and the headers of the answer. */
export interface BackgroundAnswer {
  readonly run?: RunJson;
  readonly reason?: string;
  readonly headers: Headers;
}

export interface StartRequest {
  readonly appId?: string;
  readonly text?: string;
  readonly input?: JsonObject;
  readonly waitMs?: number;
  readonly key?: string;
}

/** Runs in the background by one protocol, with one API key. */
export interface BackgroundCaller {
  start(order: StartRequest): Promise<BackgroundAnswer>;
  get(runId: string, waitMs?: number): Promise<BackgroundAnswer>;
  cancel(runId: string): Promise<BackgroundAnswer>;
  list(page?: { pageSize?: number; pageToken?: string }): Promise<{ runs: RunJson[]; nextPageToken: string }>;
  /** The run of a caller that waits for it: its output, or the reason. */
  run(order: StartRequest): Promise<BackgroundAnswer>;
}

/** Each protocol by its name: those of REST begin with `REST`. */
export const backgroundCallers: Readonly<Record<string, (url: string, value: string) => BackgroundCaller>> = {
  "REST over HTTP/1.1": overRest,
  "Connect over HTTP/1.1": (url, value) => overRpc(transports["Connect over HTTP/1.1"](url), value),
  "gRPC-Web over HTTP/1.1": (url, value) => overRpc(transports["gRPC-Web over HTTP/1.1"](url), value),
  gRPC: (url, value) => overRpc(transports.gRPC(url), value),
};

function overRest(url: string, value: string): BackgroundCaller {
  async function ask(path: string, init: RequestInit = {}) {
    const headers = {
      authorization: `Bearer ${value}`,
      "content-type": "application/json",
      ...(init.headers as Record<string, string>),
    };
    const answer = await fetch(url + path, { ...init, headers });
    return { status: answer.status, body: (await answer.json()) as object, headers: answer.headers };
  }
  async function runOf(path: string, init?: RequestInit): Promise<BackgroundAnswer> {
    const { status, body, headers } = await ask(path, init);
    if ("error" in body && status >= 400) {
      return { reason: (body.error as { code: string }).code.toUpperCase(), headers };
    }
    // A run that was waited for has no state.
    return { run: { state: "RUN_STATE_SUCCEEDED", ...body }, headers };
  }
  const post = (path: string, body: object, headers: Record<string, string> = {}) =>
    runOf(path, { method: "POST", body: JSON.stringify(body), headers });
  const run = ({ appId = "counted", text, input, key }: StartRequest, prefer?: string) =>
    post(
      `/api/apps/${appId}/run`,
      { text, input },
      { ...(prefer !== undefined && { prefer }), ...(key !== undefined && { "idempotency-key": key }) },
    );
  return {
    run,
    start: (order) =>
      run(
        order,
        order.waitMs === undefined ? "respond-async" : `respond-async, wait=${order.waitMs / 1_000}`,
      ),
    get: (runId, waitMs) =>
      runOf(`/api/runs/${runId}${waitMs === undefined ? "" : `?wait=${waitMs / 1_000}s`}`),
    cancel: (runId) => post(`/api/runs/${runId}/cancel`, {}),
    async list({ pageSize = 0, pageToken = "" } = {}) {
      const query = new URLSearchParams({ page_size: String(pageSize), page_token: pageToken });
      const { body } = await ask(`/api/runs?${query}`);
      return body as { runs: RunJson[]; nextPageToken: string };
    },
  };
}

function overRpc({ transport }: OpenTransport, value: string): BackgroundCaller {
  const client = createClient(RunService, transport);
  async function answerOf(
    call: (options: CallOptions) => Promise<{ run?: Run | undefined }>,
    more: Record<string, string> = {},
  ): Promise<BackgroundAnswer> {
    const outcome = await outcomeOfCall(call, { authorization: `Bearer ${value}`, ...more });
    const { headers } = outcome;
    if ("error" in outcome) return { reason: reasonOf(outcome.error), headers };
    const { run } = outcome.answer;
    return { ...(run && { run: toJson(RunSchema, run) }), headers };
  }
  const keyOf = ({ key }: StartRequest) => (key === undefined ? {} : { "idempotency-key": key });
  const inputOf = ({ text, input }: StartRequest) => ({
    ...(text !== undefined && { text }),
    ...(input !== undefined && { input }),
  });
  const waitOf = (waitMs: number | undefined) =>
    waitMs === undefined ? {} : { wait: durationFromMs(waitMs) };
  return {
    run: ({ appId = "counted", ...order }) =>
      answerOf(async (options) => {
        const { $typeName: _, ...ran } = await client.runApp({ appId, ...inputOf(order) }, options);
        return { run: create(RunSchema, { ...ran, state: RunState.SUCCEEDED }) };
      }, keyOf(order)),
    start: ({ appId = "counted", waitMs, ...order }) =>
      answerOf(
        (options) => client.startRun({ appId, ...inputOf(order), ...waitOf(waitMs) }, options),
        keyOf(order),
      ),
    get: (runId, waitMs) => answerOf((options) => client.getRun({ runId, ...waitOf(waitMs) }, options)),
    cancel: (runId) => answerOf((options) => client.cancelRun({ runId }, options)),
    async list(page = {}) {
      const { runs, nextPageToken } = await client.listRuns(page, {
        headers: { authorization: `Bearer ${value}` },
      });
      return { runs: runs.map((run) => toJson(RunSchema, run)), nextPageToken };
    },
  };
}
