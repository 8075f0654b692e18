import { Agent, request as httpRequest } from "node:http";
import type { ClientHttp2Session } from "node:http2";
import { expect, test } from "vitest";
import type { HttpHandler } from "#src/http/handler.ts";
import { fail, Refusal } from "#src/refusal/refusal.ts";
import { createRequestTracker, drain } from "#src/server/drain.ts";
import { createReadiness } from "#src/server/readiness.ts";
import { h2cRefusal, h2cRequest, h2cSession } from "../harness/h2c-client.ts";
import { openConnections } from "../harness/open-sockets.ts";
import { answersIn, rawSocket } from "../harness/raw-socket.ts";
import { echoHandler, jsonAnswer, type ServedHandler, serveForTest } from "../harness/served-handler.ts";

/**
 * A time for the first bytes so long that only the drain itself can close a silent connection in
 * time.
 */
const served = (drainable: HttpHandler, idleCloseDelayMs = 100) =>
  serveForTest(drainable, { limits: { idleCloseDelayMs, peekMsMax: 60_000 } });

const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const drainReason = () => fail("UNAVAILABLE", { mayHaveRun: true });

function drained(
  { listener, requests }: ServedHandler,
  times: Partial<Record<"delayMs" | "msMax" | "portClosedMs", number>> = {},
) {
  return drain({
    markUnready: () => undefined,
    drainables: [listener],
    requests,
    delayMs: 0,
    msMax: 60_000,
    portClosedMs: 500,
    abortGraceMs: 2_000,
    abortReason: drainReason,
    ...times,
  });
}

function answered(count: number) {
  return (heard: string) => answersIn(heard).length >= count;
}

/** A drainable whose requests end when the test ends them, or when their signal is aborted. */
function heldDoor() {
  const finish: (() => void)[] = [];
  const drainable: HttpHandler = (request) =>
    new Promise((resolve) => {
      const signal = request.signal;
      finish.push(() => resolve(jsonAnswer(200, "done")));
      signal.addEventListener("abort", () => {
        const told = signal.reason instanceof Refusal ? signal.reason.reason : "nothing";
        resolve({ status: 503, headers: ["X-Should-Retry", "false"], body: told });
      });
    });
  return { drainable, finish };
}

test("the process becomes unready at once, and the listener accepts requests for the drain delay", async () => {
  const server = await served(echoHandler);
  const readiness = createReadiness();
  readiness.set(true);
  const whole = drain({
    markUnready: () => readiness.set(false, "draining"),
    drainables: [server.listener],
    requests: server.requests,
    delayMs: 1_500,
    msMax: 1_000,
    portClosedMs: 500,
    abortGraceMs: 1_000,
    abortReason: drainReason,
  });
  expect(readiness.ready()).toBe(false);
  const fresh = rawSocket({ port: server.port });
  fresh.send(get);
  const [answer] = answersIn(await fresh.until(answered(1)));
  expect([answer!.status, answer!.headers.get("connection")]).toEqual([200, "keep-alive"]);
  expect(await whole).toEqual({ aborted: 0 });
  const late = rawSocket({ port: server.port });
  expect(await late.closed()).toBe("");
});

test("a running request succeeds, its answer says that its connection closes, and no new connection is accepted", async () => {
  const { drainable, finish } = heldDoor();
  const server = await served(drainable);
  const client = rawSocket({ port: server.port });
  client.send(get);
  const session = await h2cSession(server.url);
  const over2 = h2cRequest(session, { ":path": "/" });
  await expect.poll(() => finish.length).toBe(2);
  const whole = drained(server);
  await expect.poll(() => session.closed).toBe(true);
  expect(await rawSocket({ port: server.port }).closed()).toBe("");
  for (const one of finish) one();
  const [answer] = answersIn(await client.closed());
  expect([answer!.status, answer!.headers.get("connection")]).toEqual([200, "close"]);
  expect((await over2).status).toBe(200);
  expect(await whole).toEqual({ aborted: 0 });
});

test("after a drain delay the port stays open while a request runs: a balancer ends those of an instance that it takes for dead", async () => {
  const { drainable, finish } = heldDoor();
  const server = await served(drainable);
  const client = rawSocket({ port: server.port });
  client.send(get);
  await expect.poll(() => finish.length).toBe(1);
  const whole = drained(server, { delayMs: 1 });
  const session = await h2cSession(server.url);
  await expect.poll(() => session.closed).toBe(true);
  const probe = rawSocket({ port: server.port });
  probe.send(get);
  await expect.poll(() => finish.length).toBe(2);
  finish[1]!();
  const [probed] = answersIn(await probe.closed());
  expect([probed!.status, probed!.headers.get("connection")]).toEqual([200, "close"]);
  finish[0]!();
  expect(answersIn(await client.closed()).map(({ status }) => status)).toEqual([200]);
  expect(await whole).toEqual({ aborted: 0 });
  expect(await rawSocket({ port: server.port }).closed()).toBe("");
});

test("the port is closed before the end of the drain's time, however long requests run", async () => {
  const { drainable, finish } = heldDoor();
  const server = await served(drainable);
  const client = rawSocket({ port: server.port });
  client.send(get);
  await expect.poll(() => finish.length).toBe(1);
  const whole = drained(server, { delayMs: 1, msMax: 60_000, portClosedMs: 59_900 });
  for (;;) if ((await rawSocket({ port: server.port }).closed()) === "") break;
  finish[0]!();
  expect(answersIn(await client.closed()).map(({ status }) => status)).toEqual([200]);
  expect(await whole).toEqual({ aborted: 0 });
});

test("a request that is sent while its connection is closing is served, or over HTTP/2 refused unprocessed", async () => {
  const server = await served(echoHandler, 500);
  const client = rawSocket({ port: server.port });
  client.send(get);
  await client.until(answered(1));
  const session = await h2cSession(server.url);
  server.listener.stopAccepting();
  // The clients do not know of the drain yet.
  const crossing = h2cRequest(session, { ":path": "/" }).catch(h2cRefusal);
  client.send(get);
  const answers = answersIn(await client.closed());
  expect(answers.map((answer) => answer.headers.get("connection"))).toEqual(["keep-alive", "close"]);
  expect(await crossing).toBe("refused unread");
  await server.listener.drained();
});

test("a request that is still arriving when idle connections are closed is served", async () => {
  const server = await served(echoHandler);
  const idle = rawSocket({ port: server.port });
  const client = rawSocket({ port: server.port });
  for (const one of [idle, client]) {
    one.send(get);
    await one.until(answered(1));
  }
  server.listener.stopAccepting();
  client.send(get.slice(0, 9));
  await idle.closed();
  client.send(get.slice(9));
  expect(answersIn(await client.closed())).toHaveLength(2);
});

test("idle and silent connections don't delay the drain", async () => {
  const server = await served(echoHandler);
  const idle = rawSocket({ port: server.port });
  idle.send(get);
  await idle.until(answered(1));
  const silent = rawSocket({ port: server.port });
  const session = await h2cSession(server.url);
  await expect.poll(() => openConnections(server.port)).toBe(3);
  await drained(server);
  await Promise.all([idle.closed(), silent.closed()]);
  await expect.poll(() => session.destroyed).toBe(true);
  await expect.poll(() => openConnections(server.port)).toBe(0);
});

test("a request that still runs at the drain's end is refused with the reason, counted, and its connection closed", async () => {
  const { drainable, finish } = heldDoor();
  const server = await served(drainable);
  const client = rawSocket({ port: server.port });
  client.send(get);
  const session = await h2cSession(server.url);
  const over2 = h2cRequest(session, { ":path": "/" });
  await expect.poll(() => finish.length).toBe(2);
  expect(await drained(server, { msMax: 200 })).toEqual({ aborted: 2 });
  const [answer] = answersIn(await client.closed());
  expect([answer!.status, answer!.headers.get("x-should-retry"), answer!.body]).toEqual([
    503,
    "false",
    "UNAVAILABLE",
  ]);
  expect(await over2).toMatchObject({ status: 503, body: "UNAVAILABLE" });
});

test("a body that has not arrived by the drain's end is given up, and the request can be answered", async () => {
  const told: unknown[] = [];
  const server = await served(async (request) => {
    const { kind } = await request.readBody(100);
    told.push(kind, request.signal.reason);
    return jsonAnswer(503, kind);
  });
  const client = rawSocket({ port: server.port });
  client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1");
  await expect.poll(() => server.requests.running()).toBe(1);
  expect(await drained(server, { msMax: 100 })).toEqual({ aborted: 1 });
  expect(answersIn(await client.closed())[0]!.status).toBe(503);
  expect(told).toMatchObject(["gone", { reason: "UNAVAILABLE" }]);
});

test("a handler that ignores its signal can't delay the process: its connection is destroyed", async () => {
  const server = await served(() => new Promise(() => undefined));
  const client = rawSocket({ port: server.port });
  client.send(get);
  await expect.poll(() => server.requests.running()).toBe(1);
  const outcome = drain({
    markUnready: () => undefined,
    drainables: [server.listener],
    requests: server.requests,
    delayMs: 0,
    msMax: 50,
    portClosedMs: 0,
    abortGraceMs: 50,
    abortReason: drainReason,
  });
  expect(await outcome).toEqual({ aborted: 1 });
  expect(await client.closed()).toBe("");
});

test("an answer that had begun to stream when the drain began is the last on its connection", async () => {
  const server = await served(() => ({ status: 200, headers: [], body: "x".repeat(16 * 1024 * 1024) }));
  const idle = rawSocket({ port: server.port });
  const client = rawSocket({ port: server.port });
  client.socket.pause();
  client.send(get);
  await expect.poll(() => server.requests.running()).toBe(1);
  const whole = drained(server);
  await idle.closed();
  client.socket.resume();
  expect(answersIn(await client.closed())[0]!.body).toHaveLength(16 * 1024 * 1024);
  expect(await whole).toEqual({ aborted: 0 });
});

test("under load from keep-alive clients over HTTP/1.1 and HTTP/2, no request fails during a drain", async () => {
  let reached = 0;
  const server = await served(async (request) => {
    reached += 1;
    const body = await request.readBody(1_000);
    await new Promise(setImmediate);
    return jsonAnswer(200, body.kind);
  });
  const sessions = await Promise.all(Array.from({ length: 4 }, () => h2cSession(server.url)));
  const clients = [
    ...Array.from({ length: 8 }, () => loopOverHttp1(server.port)),
    ...sessions.map(loopOverHttp2),
  ];
  await expect.poll(() => clients.every((client) => client.served() >= 20)).toBe(true);
  const whole = drained(server);
  // Each client stops by itself after an answer that closes its connection, and fails if a request
  // gets no answer.
  await Promise.all(clients.map((client) => client.stopped));
  expect(await whole).toEqual({ aborted: 0 });
  // So no accepted request was refused or lost later.
  expect(clients.reduce((sum, client) => sum + client.served(), 0)).toBe(reached);
});

interface LoopingClient {
  served(): number;
  readonly stopped: Promise<void>;
}

/** Node's own client on one keep-alive connection. */
function loopOverHttp1(port: number): LoopingClient {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  let served = 0;
  const post = () =>
    new Promise<string | undefined>((resolve, reject) => {
      const req = httpRequest({ host: "127.0.0.1", port, method: "POST", agent }, (res) => {
        served += 1;
        res.resume().on("end", () => resolve(res.headers.connection));
        res.on("error", reject);
      });
      req.on("error", reject);
      req.end('{"text":"hello"}');
    });
  const loop = async () => {
    while ((await post()) !== "close");
    agent.destroy();
  };
  return { served: () => served, stopped: loop() };
}

/** Several concurrent requests on one session. */
function loopOverHttp2(session: ClientHttp2Session): LoopingClient {
  let served = 0;
  const lane = async () => {
    while (!session.closed && !session.destroyed) {
      const request = { ":method": "POST", ":path": "/" };
      const answer = await h2cRequest(session, request, '{"text":"hello"}').catch(h2cRefusal);
      if (answer === "refused unread") return;
      expect(answer.status).toBe(200);
      served += 1;
    }
  };
  const lanes = Promise.all(Array.from({ length: 8 }, lane));
  return { served: () => served, stopped: lanes.then(() => undefined) };
}

test("abortAll also aborts a request that is watched later, and never one that has ended", () => {
  const tracker = createRequestTracker();
  const aborted: string[] = [];
  const request = (name: string) => ({
    abort: (reason: Refusal) => void aborted.push(`${name} ${reason.reason}`),
  });
  const [running, ended, late] = [request("running"), request("ended"), request("late")];
  tracker.watch(running);
  tracker.unwatch(tracker.watch(ended));
  tracker.abortAll(fail("UNAVAILABLE"));
  tracker.watch(late);
  expect(aborted).toEqual(["running UNAVAILABLE", "late UNAVAILABLE"]);
});

test("idle resolves once the last request has ended, and at once if none is running", async () => {
  const tracker = createRequestTracker();
  await tracker.idle();
  tracker.begin();
  tracker.begin();
  let idle = false;
  const told = tracker.idle().then(() => {
    idle = true;
  });
  tracker.end();
  await Promise.resolve();
  expect([idle, tracker.running()]).toEqual([false, 1]);
  tracker.end();
  await told;
});
