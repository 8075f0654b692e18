import { randomUUID } from "node:crypto";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { bodyOf, serveGrpc, serveHttp } from "../harness/app-backends.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { everyCaller } from "./every-caller.ts";

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const tracestate = "congo=t61rcWkgMzE";

const seen: { traceparent: unknown; tracestate: unknown }[] = [];

const http = await serveHttp(async (request, response) => {
  const { headers } = request;
  seen.push({ traceparent: headers.traceparent, tracestate: headers.tracestate });
  const { text } = JSON.parse(await bodyOf(request));
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ text }));
});
const grpc = await serveGrpc((call, callback) => {
  const [parent] = call.metadata.get("traceparent");
  const [state] = call.metadata.get("tracestate");
  seen.push({ traceparent: parent, tracestate: state });
  callback(null, { text: call.request.text });
});
const keyrun = closedAtEnd(await startKeyrun());
const { url } = http.backend;
await keyrun.apps.createApp({ app: { id: "http", backend: { kind: { case: "http", value: { url } } } } });
const { target } = grpc.backend;
await keyrun.apps.createApp({
  app: { id: "grpc", backend: { kind: { case: "grpc", value: { target } } } },
});
const key = await keyrun.newKey(await keyrun.newTeam());

afterAll(async () => {
  await http[Symbol.asyncDispose]();
  await grpc[Symbol.asyncDispose]();
});

beforeEach(() => {
  seen.length = 0;
});

describe.each(Object.entries(everyCaller))("%s, without a tracing SDK", (name, make) => {
  const url = () => (name.startsWith("REST") ? keyrun.publicUrl : keyrun.internalUrl);

  async function run(appId: string, headers: Record<string, string>) {
    const caller = make(url());
    const outcome = await caller.run({ appId, text: "x", authorization: `Bearer ${key.value}`, headers });
    caller.close();
    expect(outcome.kind).toBe("ok");
  }

  test.each(["http", "grpc"])("the app behind %s gets the trace context of its caller", async (appId) => {
    await run(appId, { traceparent, tracestate });
    expect(seen).toEqual([{ traceparent, tracestate }]);
  });

  test.each(["http", "grpc"])("the app behind %s gets none that is not valid", async (appId) => {
    await run(appId, { traceparent: traceparent.toUpperCase(), tracestate });
    expect(seen).toEqual([{ traceparent: undefined, tracestate: undefined }]);
  });

  test("the app gets none if its caller sent none", async () => {
    await run("http", {});
    expect(seen).toEqual([{ traceparent: undefined, tracestate: undefined }]);
  });
});

async function post(path: string, headers: Record<string, string>) {
  const response = await fetch(`${keyrun.publicUrl}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${key.value}`, "content-type": "application/json", ...headers },
    body: JSON.stringify({ text: "x" }),
  });
  await response.text();
  return response.status;
}

const own = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-01";

test.each([
  ["traceparent", { traceparent: own }, { traceparent: own, tracestate: undefined }],
  ["tracestate", { tracestate: "own=1" }, { traceparent, tracestate: "own=1" }],
  ["both", { Traceparent: own, tracestate: "own=1" }, { traceparent: own, tracestate: "own=1" }],
])("an app with a header of its own for its %s gets that one, and no other", async (id, headers, got) => {
  const { url } = http.backend;
  const own = Object.entries(headers).map(([name, value]) => ({ name, value }));
  const kind = { case: "http", value: { url, headers: own } } as const;
  await keyrun.apps.createApp({ app: { id: `own-${id}`, backend: { kind } } });
  for (const way of ["run", "stream"]) {
    expect(await post(`/api/apps/own-${id}/${way}`, { traceparent, tracestate })).toBe(200);
  }
  expect(seen).toEqual([got, got]);
});

test("a streamed run passes the trace context on", async () => {
  expect(await post("/api/apps/http/stream", { traceparent, tracestate })).toBe(200);
  expect(seen).toEqual([{ traceparent, tracestate }]);
});

test("a run with an Idempotency-Key passes on the trace context of its first request", async () => {
  const again = { "idempotency-key": randomUUID() };
  expect(await post("/api/apps/http/run", { traceparent, ...again })).toBe(200);
  expect(await post("/api/apps/http/run", again)).toBe(200);
  expect(seen).toEqual([{ traceparent, tracestate: undefined }]);
});
