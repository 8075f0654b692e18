import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bodyOf, serveGrpc, serveHttp } from "../harness/app-backends.ts";
import { connectCallers } from "../harness/callers.ts";
import { freePort } from "../harness/free-port.ts";
import { grpcJsCaller } from "../harness/grpc-js-caller.ts";
import { type IssuedKey, manage } from "../harness/keyrun.ts";
import { type ServingKeyrun, type Settings, serveKeyrun } from "../harness/keyrun-process.ts";
import { otlpSettings, type ReceivedSpan, startOtlpReceiver } from "../harness/otlp-receiver.ts";
import { restCaller, restH2Caller } from "../harness/rest-caller.ts";
import { soon } from "../harness/soon.ts";
import { startTalkingApp } from "../harness/talking-app.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

const secretText = "the text that no span may have";
const kind = { internal: 1, server: 2, client: 3 };

const folders = createTempFolders();
const carried: unknown[] = [];
let otlp: Awaited<ReturnType<typeof startOtlpReceiver>>;
let http: Awaited<ReturnType<typeof serveHttp>>;
let grpc: Awaited<ReturnType<typeof serveGrpc>>;
let talking: Awaited<ReturnType<typeof startTalkingApp>>;
let keyrun: ServingKeyrun;
let management: ReturnType<typeof manage>;
let key: IssuedKey;

/** Exactly as the page for operators says. */
function serveTraced(dataDir: string, settings: Settings) {
  const command = ["--import", "./examples/tracing.mjs", "bin/keyrun.mjs", "serve"];
  return serveKeyrun(dataDir, settings, [process.execPath, ...command]);
}

beforeAll(async () => {
  otlp = await startOtlpReceiver();
  http = await serveHttp(async (request, response) => {
    carried.push(request.headers.traceparent);
    const { text } = JSON.parse(await bodyOf(request));
    const status = text === "fail" ? 500 : 200;
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify({ text }));
  });
  grpc = await serveGrpc((call, callback) => {
    carried.push(...call.metadata.get("traceparent"));
    callback(null, { text: call.request.text });
  });
  talking = await startTalkingApp();
  keyrun = await serveTraced(folders.create(), { ...otlp.settings, KEYRUN_LOG_LEVEL: "debug" });
  management = manage(keyrun.internalUrl, keyrun.serviceToken());
  const { url } = http.backend;
  const { target } = grpc.backend;
  const secretUrl = `${url}?token=secret-of-the-app`;
  await management.apps.createApp({
    app: { id: "http", backend: { kind: { case: "http", value: { url: secretUrl } } } },
  });
  await management.apps.createApp({
    app: { id: "grpc", backend: { kind: { case: "grpc", value: { target } } } },
  });
  await management.apps.createApp({ app: { id: "talking", backend: talking.backend } });
  key = await management.newKey(await management.newTeam());
});

afterAll(async () => {
  management.disconnect();
  keyrun.kill("SIGKILL");
  await keyrun.exited;
  await Promise.all([
    otlp.close(),
    talking.close(),
    http[Symbol.asyncDispose](),
    grpc[Symbol.asyncDispose](),
  ]);
  folders.remove();
});

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

function ofKind(spans: readonly ReceivedSpan[], wanted: number): ReceivedSpan[] {
  return spans.filter((span) => span.kind === wanted);
}

function serverSpan(spans: readonly ReceivedSpan[]): ReceivedSpan {
  const [span, ...others] = ofKind(spans, kind.server);
  if (!span || others.length > 0) throw new Error(`${others.length + 1} server spans`);
  return span;
}

test("a run is one tree: its caller, the request, the store, and the app, whose parent is its call", async () => {
  const caller = newCaller();
  const fresh = await management.newKey(await management.newTeam());
  carried.length = 0;
  await (await post("/api/apps/http/run?not=told", { ...caller, value: fresh.value })).text();
  const response = await post("/api/apps/http/run", { ...caller, value: fresh.value });
  expect(response.status).toBe(200);
  const spans = await otlp.trace(caller.traceId, 2);
  const served = ofKind(spans, kind.server);
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
  expect(call).toMatchObject({ kind: kind.client, parentSpanId: served[1]?.spanId });
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
  const spans = await otlp.trace(traceId);
  expect(serverSpan(spans).parentSpanId).toBe("");
  expect(spans.find((span) => span.spanId === spanId)).toMatchObject({ kind: kind.client });
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
    const fresh = await management.newKey(await management.newTeam());
    carried.length = 0;
    const { traceId, ...ran } = await run("grpc", fresh.value);
    expect(ran.kind).toBe("ok");
    const all = await otlp.trace(traceId);
    const server = serverSpan(all);
    if (system !== undefined) {
      expect(server).toMatchObject({ name: "keyrun.v1.RunService/RunApp", attributes: rpc });
    }
    if (system === "grpc") expect(server.attributes).toMatchObject({ "rpc.grpc.status_code": 0 });
    const call = all.find(({ name }) => name === "keyrun.v1.AppBackendService/Run");
    expect(call).toMatchObject({ kind: kind.client, parentSpanId: server.spanId });
    expect(call?.attributes).toMatchObject({ "rpc.system": "grpc", "rpc.grpc.status_code": 0 });
    expect(carried).toEqual([`00-${traceId}-${call?.spanId}-01`]);
  });

  test("a refused run has a span with its reason, which is no fault of the server", async () => {
    const { traceId } = await run("absent", key.value);
    const { attributes, status } = serverSpan(await otlp.trace(traceId));
    expect(attributes).toMatchObject({ "error.type": "app_not_found" });
    expect(status.code ?? 0).toBe(0);
  });
});

test("a run without a valid key has a span, without a team", async () => {
  const caller = newCaller();
  await (await post("/api/apps/http/run", { ...caller, value: `${key.value.slice(0, -1)}x` })).text();
  const { attributes, status } = serverSpan(await otlp.trace(caller.traceId));
  expect(attributes).toMatchObject({ "http.response.status_code": 401, "error.type": "invalid_api_key" });
  expect(attributes).not.toHaveProperty("keyrun.team");
  expect(status.code ?? 0).toBe(0);
});

test("an app that fails marks its call and the request as failed", async () => {
  const caller = newCaller();
  expect((await post("/api/apps/http/run", caller, "fail")).status).toBe(502);
  const spans = await otlp.trace(caller.traceId);
  const call = spans.find(({ name }) => name === "POST");
  expect(call).toMatchObject({ status: { code: 2 }, attributes: { "http.response.status_code": 500 } });
  expect(serverSpan(spans)).toMatchObject({
    status: { code: 2 },
    attributes: { "http.response.status_code": 502, "error.type": "app_failed" },
  });
});

test("the span of a stream ends with the stream", async () => {
  const caller = newCaller();
  const posted = post("/api/apps/talking/stream", caller, "a stream");
  const talk = await talking.talk("a stream");
  talk.say("a");
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(
    ofKind(
      otlp.spans().filter(({ traceId }) => traceId === caller.traceId),
      kind.server,
    ),
  ).toEqual([]);
  talk.end();
  await (await posted).text();
  const spans = await otlp.trace(caller.traceId);
  const call = spans.find(({ name }) => name === "POST");
  const server = serverSpan(spans);
  expect(server.name).toBe("POST /api/apps/{app_id}/stream");
  for (const span of [server, call]) expect((span?.endMs ?? 0) - (span?.startMs ?? 0)).toBeGreaterThan(250);
  expect(call?.parentSpanId).toBe(server.spanId);
});

test("the log line of a refusal names its trace", async () => {
  const caller = newCaller();
  await (await post("/api/apps/absent/run", caller)).text();
  await soon(() => keyrun.stderr()).toContain(caller.traceId);
  const line = keyrun
    .stderr()
    .split("\n")
    .find((each) => each.includes(caller.traceId));
  expect(JSON.parse(line ?? "")).toMatchObject({ reason: "APP_NOT_FOUND", trace_id: caller.traceId });
});

test("a probe has no span", async () => {
  const caller = newCaller();
  await (await fetch(`${keyrun.publicUrl}/readyz`, { headers: { traceparent: caller.traceparent } })).text();
  await (await post("/nowhere", caller)).text();
  const spans = await otlp.trace(caller.traceId);
  expect(spans.map(({ name }) => name)).toEqual(["POST"]);
});

test("no span has a secret: no key, no token, no text, no query, nothing of an app's URL but its host", async () => {
  const caller = newCaller();
  await (await post(`/api/apps/${key.value}/run?key=${key.value}`, caller)).text();
  await (await post(`/${keyrun.serviceToken()}`, caller)).text();
  const named = { traceparent: caller.traceparent, "x-request-id": keyrun.serviceToken() };
  await (await fetch(`${keyrun.publicUrl}/nowhere`, { headers: named })).text();
  await otlp.trace(caller.traceId, 3);
  expect(otlp.bytes()).toContain(key.id);
  expect(otlp.bytes()).not.toContain(key.value.split(".")[1]);
  expect(otlp.bytes()).not.toContain(keyrun.serviceToken());
  expect(otlp.bytes()).not.toContain(secretText);
  expect(otlp.bytes()).not.toContain("secret-of-the-app");
});

test("a receiver that is down disturbs no run, and does not hold up the end", async () => {
  const endpoint = `http://127.0.0.1:${await freePort()}`;
  const lonely = await serveTraced(folders.create(), otlpSettings(endpoint));
  const { newTeam, newKey, disconnect } = manage(lonely.internalUrl, lonely.serviceToken());
  const { value } = await newKey(await newTeam());
  for (let n = 0; n < 40; n++) {
    const response = await fetch(`${lonely.publicUrl}/api/apps/echo/run`, {
      method: "POST",
      headers: { authorization: `Bearer ${value}`, "content-type": "application/json" },
      body: '{"text":"x"}',
    });
    expect(response.status).toBe(200);
    await response.text();
  }
  disconnect();
  lonely.kill("SIGTERM");
  expect(await lonely.exited).toMatchObject({ code: 0 });
});

test("the last spans are exported before the process ends", async () => {
  const slow = { ...otlp.settings, OTEL_BSP_SCHEDULE_DELAY: "60000" };
  const last = await serveTraced(folders.create(), slow);
  const caller = newCaller();
  await fetch(`${last.publicUrl}/nowhere`, { headers: { traceparent: caller.traceparent } });
  last.kill("SIGTERM");
  expect(await last.exited).toMatchObject({ code: 0 });
  expect(otlp.spans().filter(({ traceId }) => traceId === caller.traceId)).toHaveLength(1);
});
