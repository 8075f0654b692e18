import { once } from "node:events";
import type { Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import {
  appOn,
  bodyOf,
  callerThatLeaves,
  causeOf,
  expectPending,
  openAppRunner,
  refusalOf,
  runOf,
  serveHttp,
  serveTcp,
} from "../harness/app-backends.ts";
import { freePort } from "../harness/free-port.ts";
import { createManualClock } from "../harness/manual-clock.ts";

describe("the backend gets", () => {
  test("one POST of run, team, app, key and text, with the app's headers and Keyrun's own", async () => {
    const arrived: {
      method?: string;
      url?: string;
      headers?: NodeJS.Dict<string | string[]>;
      body?: unknown;
    } = {};
    await using server = await serveHttp(async (request, response) => {
      const { method, url, headers } = request;
      Object.assign(arrived, { method, url, headers, body: JSON.parse(await bodyOf(request)) });
      response.end('{"text":"HELLO ☀","more":1}');
    });
    const clock = createManualClock();
    await using runner = openAppRunner({ clock, timers: clock });
    const backend = { ...server.backend, headers: [{ name: "authorization", value: "Bearer its-own" }] };
    const app = appOn(backend, { timeoutMs: 5_000 });

    expect(await runner.run(runOf(app, { text: "hello \u0000☀" }))).toBe("HELLO ☀");
    expect(arrived).toMatchObject({
      method: "POST",
      url: "/run",
      body: { runId: "run_1", teamId: "demo", appId: "shout", keyId: "k", text: "hello \u0000☀" },
    });
    expect(arrived.headers).toMatchObject({
      authorization: "Bearer its-own",
      "content-type": "application/json",
      "accept-encoding": "identity",
      "x-request-id": "req-1",
      "x-keyrun-deadline-ms": "5000",
    });
  });

  test("the next run over the same connection", async () => {
    await using server = await serveHttp((_, response) => response.end('{"text":""}'));
    await using runner = openAppRunner();
    for (let i = 0; i < 5; i += 1) {
      expect(await runner.run(runOf(appOn(server.backend)))).toBe("");
      await turn();
    }
    expect(server.seen).toEqual({ requests: 5, connections: 1 });
  });
});

test("an unused connection is closed, before the server could close it during a run", async () => {
  const ended = Promise.withResolvers<void>();
  await using server = await serveHttp((request, response) => {
    request.socket.on("end", ended.resolve);
    // The server announces no idle timeout and has none.
    response.writeHead(200, { Connection: "keep-alive" }).end('{"text":""}');
  });
  server.keepConnections();
  await using runner = openAppRunner();
  await runner.run(runOf(appOn(server.backend)));
  await ended.promise;
});

describe("a response that is not a success is APP_FAILED; the run is sent once, and the log has a cause:", () => {
  const json = { "Content-Type": "application/json" };
  test.each([
    ["a redirect, which is not followed", 302, { Location: "/run" }, "", /answered 302/],
    ["an error", 500, json, '{"text":"no"}', /answered 500/],
    ["a status that only resembles success", 201, json, '{"text":"made"}', /answered 201/],
    ["no JSON", 200, json, "hello", /not JSON/],
    ["bytes that are no UTF-8", 200, json, Buffer.from('{"text":"\xff"}', "latin1"), /not JSON in UTF-8/],
    ["JSON without an output", 200, json, '{"outputs":"x"}', /string `text`/],
    ["a text that is no string", 200, json, '{"text":null}', /string `text`/],
    ["a list", 200, json, '[{"text":"x"}]', /string `text`/],
    ["half a surrogate pair", 200, json, '{"text":"\\ud83d"}', /lone surrogate/],
    ["nothing", 200, json, "", /not JSON/],
    ["a compressed body", 200, { "Content-Encoding": "gzip" }, gzipSync('{"text":"x"}'), /compressed/],
    ["headers without end", 200, { "X-Long": "x".repeat(17_000) }, '{"text":"x"}', /overflow/i],
    ["a body over the bound", 200, json, JSON.stringify({ text: "x".repeat(1_100) }), /more than 1024 bytes/],
  ])("%s", async (_, status, headers, body, cause) => {
    await using server = await serveHttp((request, response) => {
      request.resume();
      response.writeHead(status, headers).end(body);
    });
    await using runner = openAppRunner({ outputBytesMax: 1_024 });
    const refusal = await refusalOf(runner.run(runOf(appOn(server.backend))));
    expect(refusal).toMatchObject({ reason: "APP_FAILED", mayHaveRun: true });
    expect(causeOf(refusal)).toMatch(cause);
    expect(server.seen.requests).toBe(1);
  });

  test("an endless output, cut off at the bound", async () => {
    const closed = Promise.withResolvers<number>();
    await using server = await serveHttp((request, response) => {
      request.resume();
      let written = 0;
      const more = () => {
        while (!response.destroyed && response.write("x".repeat(65_536))) written += 65_536;
      };
      response
        .writeHead(200)
        .on("drain", more)
        .on("close", () => closed.resolve(written));
      more();
    });
    await using runner = openAppRunner();
    const refusal = await refusalOf(runner.run(runOf(appOn(server.backend))));
    expect(causeOf(refusal)).toMatch(/more than 1024 bytes/);
    // Only as much as the buffers of the sockets hold.
    expect(await closed.promise).toBeLessThan(32 * 1024 * 1024);
  });

  test("an output of exactly the bound is accepted", async () => {
    const body = JSON.stringify({ text: "é".repeat(500) });
    await using server = await serveHttp((_, response) => response.end(body));
    await using runner = openAppRunner({ outputBytesMax: Buffer.byteLength(body) });
    expect(await runner.run(runOf(appOn(server.backend)))).toBe("é".repeat(500));
  });

  test.each([
    ["another protocol's greeting", "220 mail.example ESMTP\r\n"],
    [
      "an upgrade that nobody asked for",
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
    ],
    ["an answer that is cut off", 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"text":"x"}'],
    ["no answer at all", ""],
  ])("%s", async (_, answer) => {
    await using server = await serveTcp((socket) => socket.once("data", () => socket.end(answer)));
    const url = `http://127.0.0.1:${server.port}/`;
    await using runner = openAppRunner();
    expect(await refusalOf(runner.run(runOf(appOn({ kind: "http", url, headers: [] }))))).toMatchObject({
      reason: "APP_FAILED",
      mayHaveRun: true,
    });
  });
});

describe("a run of which nothing could be sent is APP_UNREACHABLE, safe to repeat:", () => {
  const unreachable = { reason: "APP_UNREACHABLE", mayHaveRun: false, retryAfterMs: 1_000 };

  test("if the backend is down, at once, with the cause in one line for the log", async () => {
    const url = `http://127.0.0.1:${await freePort()}/`;
    await using runner = openAppRunner();
    const refusal = await refusalOf(runner.run(runOf(appOn({ kind: "http", url, headers: [] }))));
    expect(refusal).toMatchObject(unreachable);
    expect(refusal.cause).toMatch(/^connect ECONNREFUSED 127\.0\.0\.1:\d+$/);
  });

  test("if the server has no TLS, and it does not get an https run", async () => {
    await using server = await serveHttp((_, response) => response.end('{"text":"in the clear"}'));
    const url = server.backend.url.replace("http:", "https:");
    await using runner = openAppRunner();
    const refusal = await refusalOf(runner.run(runOf(appOn({ ...server.backend, url }))));
    expect(refusal).toMatchObject(unreachable);
    expect(server.seen.requests).toBe(0);
  });

  test.each([
    ["a server that closes", (socket: Socket) => void socket.end()],
    ["a server that resets", (socket: Socket) => void socket.resetAndDestroy()],
  ])("if TLS is not agreed with %s", async (_, connected) => {
    await using server = await serveTcp((socket) => socket.once("data", () => connected(socket)));
    const url = `https://127.0.0.1:${server.port}/`;
    await using runner = openAppRunner();
    const refusal = await refusalOf(runner.run(runOf(appOn({ kind: "http", url, headers: [] }))));
    expect(refusal).toMatchObject(unreachable);
  });

  test("if the connection is not there within 5 s", async () => {
    await using server = await serveTcp((socket) => void socket.resume());
    const url = `https://127.0.0.1:${server.port}/`;
    await using runner = openAppRunner();
    const refusal = await refusalOf(runner.run(runOf(appOn({ kind: "http", url, headers: [] }))));
    expect(refusal).toMatchObject(unreachable);
    expect(refusal.cause).toMatch(/^Connect Timeout Error .*timeout: 5000ms/);
  });

  test("if the connection is not there within the app's own timeout", async () => {
    const clock = createManualClock();
    const arrived = Promise.withResolvers<void>();
    await using server = await serveTcp((socket) => void socket.once("data", () => arrived.resolve()));
    const url = `https://127.0.0.1:${server.port}/`;
    await using runner = openAppRunner({ clock, timers: clock });
    const app = appOn({ kind: "http", url, headers: [] }, { timeoutMs: 4_500 });
    const running = refusalOf(runner.run(runOf(app)));
    await arrived.promise;
    clock.advance(4_499);
    await expectPending(running);
    clock.advance(1);
    expect(await running).toMatchObject({
      ...unreachable,
      cause: "No connection within the app's timeout.",
    });
  });
});

describe("a run is never sent again", () => {
  test("if the connection breaks before a response", async () => {
    await using server = await serveHttp((request) => request.socket.resetAndDestroy());
    await using runner = openAppRunner();
    expect(await refusalOf(runner.run(runOf(appOn(server.backend))))).toMatchObject({ reason: "APP_FAILED" });
    expect(server.seen.requests).toBe(1);
  });

  test("if a kept connection was closed meanwhile: the backend may have read the run", async () => {
    const kept: Socket[] = [];
    await using server = await serveTcp((socket) => {
      kept.push(socket);
      socket.once("data", () => {
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"text":"ok"}');
        socket.once("data", () => socket.resetAndDestroy());
      });
    });
    await using runner = openAppRunner();
    const app = appOn({ kind: "http", url: `http://127.0.0.1:${server.port}/`, headers: [] });
    expect(await runner.run(runOf(app))).toBe("ok");
    await turn();
    expect(await refusalOf(runner.run(runOf(app)))).toMatchObject({ reason: "APP_FAILED", mayHaveRun: true });
    expect(kept).toHaveLength(1);
  });

  test("if a kept connection breaks, and the next run gets a new one", async () => {
    await using server = await serveHttp((request, response) => {
      if (server.seen.requests === 2) request.socket.resetAndDestroy();
      else response.end('{"text":"ok"}');
    });
    await using runner = openAppRunner();
    const app = appOn(server.backend);
    expect(await runner.run(runOf(app))).toBe("ok");
    await turn();
    expect(await refusalOf(runner.run(runOf(app)))).toMatchObject({ reason: "APP_FAILED", mayHaveRun: true });
    expect(server.seen).toEqual({ requests: 2, connections: 1 });
    expect(await runner.run(runOf(app))).toBe("ok");
    expect(server.seen).toEqual({ requests: 3, connections: 2 });
  });

  test("if the connection breaks in the middle of the response", async () => {
    await using server = await serveHttp(async (request, response) => {
      response.writeHead(200, { "Content-Length": 100 }).write('{"text":');
      await once(request.resume(), "end");
      request.socket.resetAndDestroy();
    });
    await using runner = openAppRunner();
    const refusal = await refusalOf(runner.run(runOf(appOn(server.backend))));
    expect(refusal.reason).toBe("APP_FAILED");
    expect(causeOf(refusal)).toMatch(/broke off/);
    expect(server.seen.requests).toBe(1);
  });
});

describe("a run that ends before the backend responds", () => {
  test.each([
    ["", false],
    [", even if a response has begun", true],
  ])("past its timeout, and not before, is APP_TIMEOUT%s, and its connection closes", async (_, begins) => {
    const clock = createManualClock();
    const closed = Promise.withResolvers<void>();
    const underWay = Promise.withResolvers<void>();
    await using server = await serveHttp((_request, response) => {
      response.on("close", closed.resolve);
      if (begins) response.writeHead(200).write('{"text":"');
      else underWay.resolve();
    });
    await using runner = openAppRunner({ clock, timers: clock });
    const app = appOn(server.backend, { timeoutMs: 1_000 });
    const running = refusalOf(runner.run(runOf(app, { answered: () => underWay.resolve() })));
    await underWay.promise;
    clock.advance(999);
    await expectPending(running);
    clock.advance(1);
    expect(await running).toMatchObject({ reason: "APP_TIMEOUT", mayHaveRun: true });
    await closed.promise;
  });

  test("is CANCELLED if the caller leaves, and the backend sees the connection close", async () => {
    const arrived = Promise.withResolvers<void>();
    const closed = Promise.withResolvers<void>();
    await using server = await serveHttp((_, response) => {
      response.on("close", closed.resolve);
      arrived.resolve();
    });
    await using runner = openAppRunner();
    const caller = callerThatLeaves();
    const running = refusalOf(runner.run(runOf(appOn(server.backend), { signal: caller.signal })));
    await arrived.promise;
    caller.leave();
    expect(await running).toMatchObject({ reason: "CANCELLED", mayHaveRun: true });
    await closed.promise;
  });
});

test("a response that comes before the backend has read the text ends the run at once", async () => {
  const answer = 'HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{"text":"early"}';
  await using server = await serveTcp((socket) => socket.once("data", () => socket.pause().write(answer)));
  await using runner = openAppRunner();
  const app = appOn({ kind: "http", url: `http://127.0.0.1:${server.port}/`, headers: [] });
  expect(await runner.run(runOf(app, { text: "x".repeat(32_000_000) }))).toBe("early");
});
