import { writeFileSync } from "node:fs";
import type { RequestListener } from "node:http";
import { join } from "node:path";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { bodyOf, retryIn, serveGrpc, serveHttp } from "../harness/app-backends.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { runCommand } from "../harness/command-line.ts";
import { freePort } from "../harness/free-port.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { startNameServer } from "../harness/name-server.ts";

/** The app that is checked: what it answers is set by each test. */
let answerRun: RequestListener;

const http = await serveHttp((request, response) => answerRun(request, response));
const names = await startNameServer();
const keyrun = closedAtEnd(await startKeyrun({ nameFiles: names.files() }));

afterAll(async () => {
  await http[Symbol.asyncDispose]();
  await names[Symbol.asyncDispose]();
});

beforeEach(async () => {
  for (const { id } of (await keyrun.apps.listApps({})).apps) await keyrun.apps.deleteApp({ appId: id });
  await createHttpApp(http.backend.url);
});

const secret = "own-secret-9";

async function createHttpApp(url: string) {
  await keyrun.apps.deleteApp({ appId: "web" }).catch(() => {});
  const headers = [{ name: "x-api-key", value: secret }];
  await keyrun.apps.createApp({
    app: { id: "web", backend: { kind: { case: "http", value: { url, headers } } } },
  });
}

async function createGrpcApp(target: string, tls = false) {
  await keyrun.apps.createApp({
    app: { id: "rpc", backend: { kind: { case: "grpc", value: { target, tls } } } },
  });
}

const apps = (...args: string[]) =>
  runCommand(["apps", ...args], { env: { KEYRUN_DATA_DIR: keyrun.config.dataDir } });

async function check(appId: string, ...args: string[]) {
  const { code, stdout, stderr } = await apps("check", appId, "--json", ...args);
  expect(stderr).toBe("");
  return { code, ...JSON.parse(stdout) };
}

/** Answers with this status, after the whole request. */
function answering(code: number, body: string, headers: Record<string, string> = {}): RequestListener {
  return (request, response) =>
    void request.resume().on("end", () => response.writeHead(code, headers).end(body));
}

const json = { "content-type": "application/json" };
const failed = { code: 1, reason: "APP_FAILED" };

describe("apps check says what came, what is missing and how to mend it:", () => {
  test.each<[string, RequestListener, object]>([
    [
      "an object without `text`",
      answering(200, '{"answer":"hi"}', json),
      {
        ...failed,
        status: "200",
        mediaType: "application/json",
        body: '{"answer":"hi"}',
        problem: "The answer is not a JSON object with a string `text` or an `output`: it has neither.",
        advice: expect.stringContaining('{"text":"…"}'),
      },
    ],
    [
      "plain text",
      answering(200, "hi", { "content-type": "text/plain; charset=utf-8" }),
      {
        ...failed,
        status: "200",
        mediaType: "text/plain",
        body: "hi",
        problem: expect.stringMatching(/^The answer is not JSON: it came as text\/plain\./),
        advice: expect.stringContaining('{"text":"…"}'),
      },
    ],
    [
      "an exception",
      answering(500, `<h1>Boom</h1>\nwith ${secret}`, { "content-type": "text/html" }),
      {
        ...failed,
        status: "500",
        mediaType: "text/html",
        body: "<h1>Boom</h1> with [redacted]",
        problem: expect.stringMatching(/^The backend answered 500, not 200\./),
        advice: expect.stringContaining("exception"),
      },
    ],
    [
      "GET alone",
      answering(405, "", { allow: "GET, HEAD" }),
      { ...failed, status: "405", advice: expect.stringContaining("now it allows GET, HEAD") },
    ],
    [
      "a redirect",
      answering(307, "", { location: "/run/" }),
      { ...failed, status: "307", advice: expect.stringContaining("/run/. Often a slash") },
    ],
    [
      "a wrong path",
      answering(404, "Cannot POST /run"),
      { ...failed, status: "404", body: "Cannot POST /run", advice: expect.stringContaining("--url") },
    ],
    [
      "FastAPI's 422",
      answering(422, '{"detail":[{"type":"missing","loc":["body","query"],"msg":"Field required"}]}', json),
      {
        code: 1,
        reason: "APP_REFUSED",
        status: "422",
        problem: "body.query: Field required",
        advice: expect.stringContaining('"text"'),
      },
    ],
    [
      "a 422 without words",
      answering(422, "{}", json),
      { ...failed, status: "422", advice: expect.stringContaining('{"error":{"message":"…"}}') },
    ],
    [
      "an app that is busy",
      answering(429, "later", json),
      { code: 1, reason: "APP_BUSY", status: "429", body: "later" },
    ],
    [
      "a busy app whose Retry-After is no time",
      answering(503, "{}", { "retry-after": "soon" }),
      {
        code: 1,
        reason: "APP_BUSY",
        problem: "The app answered 503, with a Retry-After that can't be read.",
      },
    ],
    [
      "what is called JSON and is none",
      answering(200, "{'text':'hi'}", json),
      {
        ...failed,
        problem: expect.stringMatching(/^The answer is not JSON, although it came as application\/json\./),
        advice: expect.stringContaining('{"text":"…"}'),
      },
    ],
    [
      "201 in place of 200",
      answering(201, '{"text":"hi"}', json),
      { ...failed, status: "201", advice: expect.stringMatching(/^Answer 200 /) },
    ],
    [
      "half an emoji",
      answering(200, '{"text":"a\\ud83d"}', json),
      { ...failed, advice: expect.stringContaining("between its characters") },
    ],
    [
      "a stream with another end than that of the body",
      answering(200, 'data: {"text":"hi"}\n\ndata: [DONE]\n\n', { "content-type": "text/event-stream" }),
      {
        ...failed,
        problem: "A message is not JSON.",
        advice: expect.stringMatching(/^Send each piece as a message .*\[DONE\]\.$/),
      },
    ],
    [
      "a stream that tells an error",
      answering(200, '{"text":"hi"}\n{"error":"half-way"}\n', { "content-type": "application/x-ndjson" }),
      { ...failed, advice: expect.stringMatching(/^The app says so itself/) },
    ],
    [
      "a compressed answer",
      answering(200, "", { "content-encoding": "gzip" }),
      { ...failed, advice: expect.stringContaining("as it is") },
    ],
    [
      "too long an answer",
      answering(200, JSON.stringify({ text: "a".repeat(2 ** 21) }), json),
      { ...failed, advice: "Let the app answer less in one run." },
    ],
  ])("%s", async (_, listener, expected) => {
    answerRun = listener;
    expect(await check("web")).toMatchObject(expected);
  });

  test("a connection that breaks, with the id by which the app's log has the run", async () => {
    let requestId: string | string[] | undefined;
    answerRun = (request) => {
      requestId = request.headers["x-request-id"];
      request.socket.destroy();
    };
    const { advice } = await check("web");
    expect(advice).toBe(`See the app's own log. The run of this check had the X-Request-Id ${requestId}.`);
  });

  test("no answer in time", async () => {
    answerRun = () => {};
    await apps("update", "web", "--timeout", "50ms");
    expect(await check("web")).toMatchObject({
      code: 1,
      reason: "APP_TIMEOUT",
      advice: expect.stringContaining("--timeout"),
    });
  });

  test("a port where nothing listens", async () => {
    await createHttpApp(`http://127.0.0.1:${await freePort()}/run`);
    expect(await check("web")).toMatchObject({
      code: 1,
      reason: "APP_UNREACHABLE",
      problem: expect.stringMatching(/^connect ECONNREFUSED 127\.0\.0\.1:\d+$/),
      advice: expect.stringContaining("Start the app"),
    });
  });

  test("a name that nobody knows", async () => {
    await createHttpApp("http://no-such-app.example/run");
    expect(await check("web")).toMatchObject({
      code: 1,
      reason: "APP_UNREACHABLE",
      problem: expect.stringContaining("ENOTFOUND"),
      advice: expect.stringContaining("name is not known"),
    });
  });

  test("https where the app speaks no TLS", async () => {
    await createHttpApp(http.backend.url.replace("http:", "https:"));
    expect(await check("web")).toMatchObject({
      code: 1,
      reason: "APP_UNREACHABLE",
      problem: expect.stringContaining("speaks no TLS"),
      advice: expect.stringContaining("http: in place of https:"),
    });
  });

  test("a gRPC app that refuses, is busy, has no such method, or is not there", async () => {
    await using server = await serveGrpc((call, answer) => {
      const { text } = call.request;
      if (text === "busy") answer({ code: status.UNAVAILABLE, details: "x", metadata: retryIn(7n) });
      else if (text === "none") answer({ code: status.UNIMPLEMENTED, details: "x" });
      else answer({ code: status.INVALID_ARGUMENT, details: "No address." });
    });
    await createGrpcApp(server.backend.target);
    expect(await check("rpc")).toMatchObject({
      code: 1,
      reason: "APP_REFUSED",
      status: "3 INVALID_ARGUMENT",
      problem: "No address.",
    });
    expect(await check("rpc", "--text", "busy")).toMatchObject({
      reason: "APP_BUSY",
      status: "14 UNAVAILABLE",
    });
    expect(await check("rpc", "--text", "none")).toMatchObject({
      ...failed,
      advice: expect.stringContaining("keyrun.v1.AppBackendService"),
    });
    await keyrun.apps.deleteApp({ appId: "rpc" });
    await createGrpcApp(`127.0.0.1:${await freePort()}`);
    expect(await check("rpc")).toMatchObject({
      code: 1,
      reason: "APP_UNREACHABLE",
      problem: expect.stringContaining("ECONNREFUSED"),
      advice: expect.stringContaining("Start the app"),
    });
  });
});

test("apps check sends a real run with the app's headers, without key, limit or usage, and shows the text", async () => {
  const got: unknown[] = [];
  answerRun = async (request, response) => {
    got.push({ key: request.headers["x-api-key"], ...JSON.parse(await bodyOf(request)) });
    response.end('{"text":"HI\\n there"}');
  };
  const { code, stdout, stderr } = await apps("check", "web", "--text", "hi there");
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout.replace(/run_\w{24}/, "run_1")).toBe(
    [
      "app       web",
      "a run     succeeds",
      'sent      {"runId":"run_1","teamId":"","appId":"web","keyId":"","text":"hi there"}',
      "answered  200",
      'body      {"text":"HI\\n there"}',
      "output    HI  there",
      "",
    ].join("\n"),
  );
  const runId = expect.stringMatching(/^run_/);
  expect(got).toEqual([{ key: secret, runId, teamId: "", appId: "web", keyId: "", text: "hi there" }]);
  await keyrun.apps.createApp({ app: { id: "echo", backend: { kind: { case: "echo", value: {} } } } });
  expect(await check("echo")).toMatchObject({ code: 0, succeeded: true, output: "hello" });
});

test("apps check shows what a template sent, which pointer missed, and what to change", async () => {
  const set = ["--request", `{"q":"$text","user":"${secret}"}`, "--text-at", "/answer/0"];
  await apps("update", "web", ...set, "--stream-event", "event=token");
  const sent = '{"q":"hello","user":"[redacted]"}';
  answerRun = answering(200, '{"answer":[]}', json);
  expect(await check("web")).toMatchObject({
    ...failed,
    sent,
    problem: "The answer has no string at /answer/0 (text_at): there is no /answer/0.",
    advice: expect.stringContaining("apps update, --request, --text-at, --output-at"),
  });
  const events = 'data: {"event":"end","answer":["hi"]}\n\n';
  answerRun = answering(200, events, { "content-type": "text/event-stream" });
  expect(await check("web")).toMatchObject({
    ...failed,
    problem:
      "No message of the stream has a string at /answer/0 (stream_text_at) and event=token (stream_event).",
    advice: expect.stringContaining("--stream-text-at"),
  });
  answerRun = answering(400, '{"code":"invalid_param","message":"No user.","status":400}', json);
  expect(await check("web")).toMatchObject({
    code: 1,
    reason: "APP_REFUSED",
    sent,
    problem: "No user.",
    advice: expect.stringContaining("--request"),
  });
  answerRun = answering(401, '{"error":{"message":"Incorrect API key provided"}}', json);
  expect(await check("web")).toMatchObject({ ...failed, advice: expect.stringContaining("--header") });
  answerRun = answering(200, '{"answer":["hi"]}', json);
  expect(await check("web")).toMatchObject({ code: 0, sent, output: "hi" });
});

test("apps check shows no half of a secret where a body is cut, and no more than a thousand characters", async () => {
  const filler = "\n".repeat(16 * 1024 - 6 - secret.length);
  answerRun = answering(500, `start ${filler}${secret}${secret}`);
  const { body } = await check("web");
  expect(body).toBe("start");
  answerRun = answering(500, "é ".repeat(5_000));
  expect((await check("web")).body).toHaveLength(1_000);
  const text = `start ${"\u3000".repeat(16 * 1024 - 6 - 6 - secret.length)}${secret}${secret}`;
  await apps("update", "web", "--request", '{"q":"$text"}');
  expect((await check("web", "--text", text)).sent).toBe('{"q":"start');
});

test("apps create and update warn where nothing answers, and store the app; where something does, they are silent", async () => {
  const dead = `http://127.0.0.1:${await freePort()}/run`;
  const warned =
    /^Nothing answers there now: connect ECONNREFUSED .*\. Nothing listens there\. .*apps check new` then tries a run\.\n$/;
  const created = await apps("create", "new", "--backend", "http", "--url", dead);
  expect(created).toMatchObject({ code: 0, stdout: "App new is created, for all teams.\n" });
  expect(created.stderr).toMatch(warned);
  let runs = 0;
  answerRun = () => {
    runs += 1;
  };
  expect(await apps("update", "new", "--url", http.backend.url)).toMatchObject({ code: 0, stderr: "" });
  expect((await apps("update", "new", "--url", dead)).stderr).toMatch(warned);
  expect(await apps("update", "new", "--name", "New")).toMatchObject({ code: 0, stderr: "" });
  await using grpc = await serveGrpc((_, answer) => answer(null, { text: "" }));
  const rpc = ["create", "rpc", "--backend", "grpc", "--target"];
  expect(await apps(...rpc, grpc.backend.target)).toMatchObject({ code: 0, stderr: "" });
  expect(runs + grpc.seen.runs).toBe(0);
});

test("an app that is not there is named, as elsewhere", async () => {
  expect(await apps("check", "webb")).toEqual({
    code: 1,
    stdout: "",
    stderr: "There is no app `webb`. Did you mean `web`? Apps: web.\n",
  });
});

test("apps check sends --input to an app whose template needs it, and says where it is missing", async () => {
  answerRun = async (request, response) => response.end(JSON.stringify({ text: await bodyOf(request) }));
  const backend = { url: http.backend.url, request: '{"id":"$input/customer/id","q":"$text"}' };
  await keyrun.apps.deleteApp({ appId: "web" });
  await keyrun.apps.createApp({ app: { id: "web", backend: { kind: { case: "http", value: backend } } } });
  const file = join(keyrun.config.dataDir, "input.json");
  writeFileSync(file, '{"customer":{"id":[7]}}');
  const { code, sent } = await check("web", "--input", file, "--text", "hi");
  expect({ code, sent }).toEqual({ code: 0, sent: '{"id":[7],"q":"hi"}' });
  const without = await apps("check", "web");
  expect(without).toMatchObject({ code: 2, stderr: expect.stringContaining("--input is required") });
  const alone = await apps("check", "web", "--input", file);
  expect(alone).toMatchObject({ code: 2, stderr: expect.stringContaining("--text is required") });
});
