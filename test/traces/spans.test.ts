import { randomBytes } from "node:crypto";
import { SpanKind, SpanStatusCode } from "@opentelemetry/api";
import { NodeSDK, tracing } from "@opentelemetry/sdk-node";
import { afterAll, describe, expect, test } from "vitest";
import { bodyOf, serveGrpc, serveHttp } from "../harness/app-backends.ts";
import { connectCallers } from "../harness/callers.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { grpcJsCaller } from "../harness/grpc-js-caller.ts";
import { type IssuedKey, startKeyrun } from "../harness/keyrun.ts";
import { restCaller, restH2Caller } from "../harness/rest-caller.ts";
import { startTalkingApp } from "../harness/talking-app.ts";

const secretText = "the text that no span may have";

const exporter = new tracing.InMemorySpanExporter();
const sdk = new NodeSDK({
  autoDetectResources: false,
  spanProcessors: [new tracing.SimpleSpanProcessor(exporter)],
});
const carried: unknown[] = [];
let key: IssuedKey;

sdk.start();
const http = await serveHttp(async (request, response) => {
  carried.push(request.headers.traceparent);
  const { text } = JSON.parse(await bodyOf(request));
  const status = text === "fail" ? 500 : 200;
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify({ text }));
});
const grpc = await serveGrpc((call, callback) => {
  carried.push(...call.metadata.get("traceparent"));
  callback(null, { text: call.request.text });
});
const talking = await startTalkingApp();
const keyrun = closedAtEnd(await startKeyrun());
const { url } = http.backend;
const { target } = grpc.backend;
const secretUrl = `${url}?token=secret-of-the-app`;
await keyrun.apps.createApp({
  app: { id: "http", backend: { kind: { case: "http", value: { url: secretUrl } } } },
});
await keyrun.apps.createApp({
  app: { id: "grpc", backend: { kind: { case: "grpc", value: { target } } } },
});
await keyrun.apps.createApp({ app: { id: "talking", backend: talking.backend } });
key = await keyrun.newKey(await keyrun.newTeam());

afterAll(async () => {
  await Promise.all([talking.close(), http[Symbol.asyncDispose](), grpc[Symbol.asyncDispose]()]);
  await sdk.shutdown();
});

type Ended = ReturnType<typeof endedOf>[number];

/** The spans of a trace that have ended. */
function endedOf(traceId: string) {
  const spans = exporter.getFinishedSpans().filter((span) => span.spanContext().traceId === traceId);
  return spans.map((span) => ({
    ...{ name: span.name, kind: span.kind, status: span.status, attributes: span.attributes },
    spanId: span.spanContext().spanId,
    parentSpanId: span.parentSpanContext?.spanId,
    beginNanoseconds: BigInt(span.startTime[0]) * 1_000_000_000n + BigInt(span.startTime[1]),
  }));
}

/** The same, once those of so many requests have ended: they end last. Sorted by their begin. */
async function trace(traceId: string, requests = 1): Promise<Ended[]> {
  await expect.poll(() => ofKind(endedOf(traceId), SpanKind.SERVER).length).toBeGreaterThanOrEqual(requests);
  return endedOf(traceId).sort((one, other) => Number(one.beginNanoseconds - other.beginNanoseconds));
}

/** The context of a caller that traces. */
function newCaller() {
  const traceId = randomBytes(16).toString("hex");
  const spanId = randomBytes(8).toString("hex");
  return { traceId, spanId, traceparent: `00-${traceId}-${spanId}-01` };
}

function post(
  path: string,
  { traceparent, value = key.value }: { traceparent: string; value?: string },
  text = secretText,
) {
  return fetch(`${keyrun.publicUrl}${path}`, {
    method: "POST",
    headers: { traceparent, authorization: `Bearer ${value}`, "content-type": "application/json" },
    body: JSON.stringify({ text }),
  });
}

function ofKind(spans: readonly Ended[], wanted: SpanKind): Ended[] {
  return spans.filter((span) => span.kind === wanted);
}

function serverSpan(spans: readonly Ended[]): Ended {
  const [span, ...others] = ofKind(spans, SpanKind.SERVER);
  if (!span || others.length > 0) throw new Error(`${others.length + 1} server spans`);
  return span;
}

test("a run is one tree: its caller, the request, the store, and the app, whose parent is its call", async () => {
  const caller = newCaller();
  const fresh = await keyrun.newKey(await keyrun.newTeam());
  carried.length = 0;
  await (await post("/api/apps/http/run?not=told", { ...caller, value: fresh.value })).text();
  const response = await post("/api/apps/http/run", { ...caller, value: fresh.value });
  expect(response.status).toBe(200);
  const spans = await trace(caller.traceId, 2);
  const served = ofKind(spans, SpanKind.SERVER);
  expect(served).toHaveLength(2);
  for (const span of served) {
    expect(span).toMatchObject({ name: "POST /api/apps/{app_id}/run", parentSpanId: caller.spanId });
  }
  expect(served[1]?.attributes).toMatchObject({
    "http.request.method": "POST",
    "http.route": "/api/apps/{app_id}/run",
    "http.response.status_code": 200,
    "url.path": "/api/apps/http/run",
    "url.scheme": "http",
    "server.address": "127.0.0.1",
    "client.address": "127.0.0.1",
    "keyrun.team": fresh.teamId,
    "keyrun.key_id": fresh.id,
    "keyrun.app": "http",
    "keyrun.request_id": response.headers.get("x-request-id"),
  });
  const reads = spans.filter(({ attributes }) => attributes["db.system.name"] === "sqlite");
  expect(reads.map(({ name }) => name)).toContain("find keys");
  for (const read of reads) expect(served.map(({ spanId }) => spanId)).toContain(read.parentSpanId);
  const [call] = spans.filter(({ name }) => name === "POST");
  expect(call).toMatchObject({ kind: SpanKind.CLIENT, parentSpanId: served[1]?.spanId });
  expect(call?.attributes).toMatchObject({
    "http.request.method": "POST",
    "http.response.status_code": 200,
    "server.address": "127.0.0.1",
    "keyrun.app": "http",
  });
  expect(carried).toEqual([`00-${caller.traceId}-${call?.spanId}-01`]);
});

test("without a trace of its caller, a run begins its own", async () => {
  carried.length = 0;
  await (await post("/api/apps/http/run", { traceparent: "no trace" })).text();
  const [, traceId = "", spanId] = String(carried[0]).split("-");
  const spans = await trace(traceId);
  expect(serverSpan(spans).parentSpanId).toBeUndefined();
  expect(spans.find((span) => span.spanId === spanId)).toMatchObject({ kind: SpanKind.CLIENT });
});

const callers = {
  "REST over HTTP/1.1": { make: restCaller, system: undefined },
  "REST over HTTP/2": { make: restH2Caller, system: undefined },
  ...Object.fromEntries(
    Object.entries(connectCallers).map(([name, make]) => [
      name,
      { make, system: name.startsWith("Connect") ? "connect_rpc" : "grpc" },
    ]),
  ),
  "gRPC by grpc-js": { make: grpcJsCaller, system: "grpc" },
};

describe.each(Object.entries(callers))("%s", (_, { make, system }) => {
  async function run(appId: string, value: string) {
    const { traceId, traceparent } = newCaller();
    const caller = make(system === undefined ? keyrun.publicUrl : keyrun.internalUrl);
    const authorization = `Bearer ${value}`;
    const outcome = await caller.run({ appId, text: secretText, authorization, headers: { traceparent } });
    caller.close();
    return { kind: outcome.kind, traceId };
  }

  const rpc = {
    "rpc.system": system,
    "rpc.service": "keyrun.v1.RunService",
    "rpc.method": "RunApp",
  };

  test("a run has a span, and the call of its gRPC app is a child of it", async () => {
    const fresh = await keyrun.newKey(await keyrun.newTeam());
    carried.length = 0;
    const { traceId, ...ran } = await run("grpc", fresh.value);
    expect(ran.kind).toBe("ok");
    const all = await trace(traceId);
    const server = serverSpan(all);
    if (system !== undefined) {
      expect(server).toMatchObject({ name: "keyrun.v1.RunService/RunApp", attributes: rpc });
    }
    if (system === "grpc") expect(server.attributes).toMatchObject({ "rpc.grpc.status_code": 0 });
    const call = all.find(({ name }) => name === "keyrun.v1.AppBackendService/Run");
    expect(call).toMatchObject({ kind: SpanKind.CLIENT, parentSpanId: server.spanId });
    expect(call?.attributes).toMatchObject({ "rpc.system": "grpc", "rpc.grpc.status_code": 0 });
    expect(carried).toEqual([`00-${traceId}-${call?.spanId}-01`]);
  });

  test("a refused run has a span with its reason, which is no fault of the server", async () => {
    const { traceId } = await run("absent", key.value);
    const { attributes, status } = serverSpan(await trace(traceId));
    expect(attributes).toMatchObject({ "error.type": "app_not_found" });
    expect(status.code).toBe(SpanStatusCode.UNSET);
  });
});

test("a run without a valid key has a span, without a team", async () => {
  const caller = newCaller();
  await (await post("/api/apps/http/run", { ...caller, value: `${key.value}x` })).text();
  const { attributes, status } = serverSpan(await trace(caller.traceId));
  expect(attributes).toMatchObject({ "http.response.status_code": 401, "error.type": "invalid_api_key" });
  expect(attributes).not.toHaveProperty("keyrun.team");
  expect(status.code).toBe(SpanStatusCode.UNSET);
});

test("an app that fails marks its call and the request as failed", async () => {
  const caller = newCaller();
  expect((await post("/api/apps/http/run", caller, "fail")).status).toBe(502);
  const spans = await trace(caller.traceId);
  const call = spans.find(({ name }) => name === "POST");
  expect(call).toMatchObject({
    status: { code: SpanStatusCode.ERROR },
    attributes: { "http.response.status_code": 500 },
  });
  expect(serverSpan(spans)).toMatchObject({
    status: { code: SpanStatusCode.ERROR },
    attributes: { "http.response.status_code": 502, "error.type": "app_failed" },
  });
});

test("the span of a stream ends with the stream", async () => {
  const caller = newCaller();
  const posted = post("/api/apps/talking/stream", caller, "a stream");
  const talk = await talking.talk("a stream");
  talk.say("a");
  const reader = (await posted).body!.getReader();
  await reader.read();
  talk.say("b");
  await reader.read();
  const isOfStream = ({ kind }: Ended) => kind !== SpanKind.INTERNAL;
  expect(endedOf(caller.traceId).filter(isOfStream)).toEqual([]);
  talk.end();
  while (!(await reader.read()).done);
  const spans = await trace(caller.traceId);
  const call = spans.find(({ name }) => name === "POST");
  const server = serverSpan(spans);
  expect(server.name).toBe("POST /api/apps/{app_id}/stream");
  expect(call?.parentSpanId).toBe(server.spanId);
});

test("a probe has no span", async () => {
  const caller = newCaller();
  await (await fetch(`${keyrun.publicUrl}/readyz`, { headers: { traceparent: caller.traceparent } })).text();
  await (await post("/nowhere", caller)).text();
  const spans = await trace(caller.traceId);
  expect(spans.map(({ name }) => name)).toEqual(["POST"]);
});

test("no span has a secret: no key, no token, no text, no query, nothing of an app's URL but its host", async () => {
  const caller = newCaller();
  await (await post(`/api/apps/${key.value}/run?key=${key.value}`, caller)).text();
  await (await post(`/${keyrun.serviceToken}`, caller)).text();
  const named = { traceparent: caller.traceparent, "x-request-id": keyrun.serviceToken };
  await (await fetch(`${keyrun.publicUrl}/nowhere`, { headers: named })).text();
  await trace(caller.traceId, 3);
  const all = JSON.stringify(
    exporter.getFinishedSpans().map(({ name, attributes, events, links, status }) => {
      return { name, attributes, events, links, status };
    }),
  );
  expect(all).toContain(key.id);
  for (const secret of [key.value.split(".")[1], keyrun.serviceToken, secretText, "secret-of-the-app"])
    expect(all).not.toContain(secret);
});
