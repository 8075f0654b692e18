import { once } from "node:events";
import { constants, createServer, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import { type AddressInfo, connect, type Socket } from "node:net";
import { status } from "@grpc/grpc-js";
import { describe, expect, test, vi } from "vitest";
import {
  appOn,
  callerThatLeaves,
  causeOf,
  expectPending,
  openAppRunner,
  refusalOf,
  runOf,
  serveGrpc,
  serveHttp,
  serveTcp,
} from "../harness/app-backends.ts";
import { freePort } from "../harness/free-port.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { begun } from "../harness/streamed-apps.ts";

describe("the backend gets", () => {
  test("run, team, app, key and text, with the request id, and the rest of the timeout as deadline", async () => {
    const arrived: { request?: unknown; requestId?: unknown; msLeft?: number } = {};
    await using server = await serveGrpc((call, answer) => {
      arrived.request = call.request;
      arrived.requestId = call.metadata.get("x-request-id");
      arrived.msLeft = Number(call.getDeadline()) - Date.now();
      answer(null, { text: "HELLO ☀" });
    });
    await using runner = openAppRunner();
    const app = appOn(server.backend, { timeoutMs: 300_000 });
    expect(await runner.run(runOf(app, { text: "hello \u0000☀" }))).toBe("HELLO ☀");
    expect(arrived.request).toMatchObject({
      runId: "run_1",
      teamId: "demo",
      appId: "shout",
      text: "hello \u0000☀",
      keyId: "k",
    });
    expect(arrived.requestId).toEqual(["req-1"]);
    expect(arrived.msLeft).toBeGreaterThan(0);
    expect(arrived.msLeft).toBeLessThanOrEqual(300_001);
  });

  test("only what the connection left of the timeout as deadline", async () => {
    const arrived: { msLeft?: number } = {};
    await using server = await serveGrpc((call, answer) => {
      arrived.msLeft = Number(call.getDeadline()) - Date.now();
      answer(null, { text: "here" });
    });
    const [host = "", port] = server.backend.target.split(":");
    await using proxy = await serveTcp((socket) => {
      const through = connect(Number(port), host);
      through.on("error", () => {});
      setTimeout(() => socket.pipe(through).pipe(socket), 200);
    });
    await using runner = openAppRunner();
    const backend = { kind: "grpc", target: `127.0.0.1:${proxy.port}`, tls: false } as const;
    expect(await runner.run(runOf(appOn(backend, { timeoutMs: 300_000 })))).toBe("here");
    expect(arrived.msLeft).toBeGreaterThan(0);
    expect(arrived.msLeft).toBeLessThanOrEqual(299_900);
  });

  test("all runs of a target over one connection", async () => {
    const peers = new Set<string>();
    await using server = await serveGrpc((call, answer) => {
      peers.add(call.getPeer());
      answer(null, { text: "" });
    });
    await using runner = openAppRunner();
    const app = appOn(server.backend);
    expect(await Promise.all(Array.from({ length: 8 }, () => runner.run(runOf(app))))).toHaveLength(8);
    expect(await runner.run(runOf(appOn(server.backend, { id: "another" })))).toBe("");
    expect(peers.size).toBe(1);
  });
});

describe("a failure becomes APP_FAILED, is sent once, and has a cause for the log:", () => {
  test.each([
    ["UNAVAILABLE, which others would retry", status.UNAVAILABLE],
    ["CANCELLED, though nobody cancelled", status.CANCELLED],
    ["RESOURCE_EXHAUSTED", status.RESOURCE_EXHAUSTED],
  ])("%s", async (_, code) => {
    await using server = await serveGrpc((_call, answer) => answer({ code, details: "its own words" }));
    await using runner = openAppRunner();
    const refusal = await refusalOf(runner.run(runOf(appOn(server.backend))));
    expect(refusal).toMatchObject({ reason: "APP_FAILED", mayHaveRun: true });
    expect(causeOf(refusal)).toContain("its own words");
    expect(refusal.message).not.toContain("its own words");
    expect(server.seen.runs).toBe(1);
  });

  test("a connection that breaks during the run", async () => {
    await using server = await serveHttp2((stream) => stream.session?.destroy());
    await using runner = openAppRunner();
    expect(await refusalOf(runner.run(runOf(appOn(server.backend))))).toMatchObject({
      reason: "APP_FAILED",
      mayHaveRun: true,
    });
    expect(server.seen.streams).toBe(1);
  });

  test("a response that is not the contract's message", async () => {
    await using server = await serveHttp2((stream) => {
      stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
      stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
      stream.end(Buffer.from([0, 0, 0, 0, 3, 0x0a, 1, 0xff]));
    });
    await using runner = openAppRunner();
    expect(await refusalOf(runner.run(runOf(appOn(server.backend))))).toMatchObject({ reason: "APP_FAILED" });
  });

  test("a message that is compressed, and its head does not say how", async () => {
    await using server = await serveHttp2((stream) => {
      stream.respond({ ":status": 200, "content-type": "application/grpc" });
      stream.end(Buffer.from([1, 0, 0, 0, 3, 0x0a, 1, 0x61]));
    });
    await using runner = openAppRunner();
    const refusal = await refusalOf(runner.run(runOf(appOn(server.backend))));
    expect(refusal).toMatchObject({ reason: "APP_FAILED", mayHaveRun: true });
    expect(causeOf(refusal)).toContain("can't be decompressed");
  });

  test("an output over the bound; an output of exactly the bound is accepted", async () => {
    await using server = await serveGrpc((call, answer) =>
      answer(null, { text: "x".repeat(Number(call.request.text)) }),
    );
    await using runner = openAppRunner({ outputBytesMax: 1_000 });
    const app = appOn(server.backend);
    expect(await runner.run(runOf(app, { text: "1000" }))).toHaveLength(1_000);
    expect(causeOf(await refusalOf(runner.run(runOf(app, { text: "1001" }))))).toMatch(
      /more than 1000 bytes/,
    );
    // This output is far over the bound: it is refused by its announced length and not read.
    expect(causeOf(await refusalOf(runner.run(runOf(app, { text: "1000000" }))))).toMatch(
      /RESOURCE_EXHAUSTED/,
    );
  });
});

test("a stream that the server refuses before it has begun to answer is APP_BUSY, as nothing has run", async () => {
  const head = { ":status": 200, "content-type": "application/grpc" };
  const refuse = (stream: ServerHttp2Stream) => stream.close(constants.NGHTTP2_REFUSED_STREAM);
  const busy = { reason: "APP_BUSY", mayHaveRun: false, retryAfterMs: 1_000 };
  await using refusing = await serveHttp2(refuse);
  await using beginning = await serveHttp2((stream) => {
    stream.respond(head);
    stream.write("", () => refuse(stream));
  });
  await using runner = openAppRunner();
  const app = appOn(refusing.backend);
  expect(await refusalOf(runner.run(runOf(app)))).toMatchObject(busy);
  expect(await refusalOf(begun(runner.stream(runOf(app))).then(() => ""))).toMatchObject(busy);
  expect(refusing.seen.streams).toBe(2);
  const failed = { reason: "APP_FAILED", mayHaveRun: true };
  expect(await refusalOf(runner.run(runOf(appOn(beginning.backend))))).toMatchObject(failed);
});

const unreachable = { reason: "APP_UNREACHABLE", mayHaveRun: false, retryAfterMs: 1_000 };

describe("a backend that can't be reached", () => {
  test("because it is down fails a run at once instead of holding it until it is back", async () => {
    const target = `127.0.0.1:${await freePort()}`;
    await using runner = openAppRunner();
    // The timeout is long, so a quick failure shows that the run did not wait.
    const app = appOn({ kind: "grpc", target, tls: false }, { timeoutMs: 600_000 });
    const refusal = await refusalOf(runner.run(runOf(app)));
    expect(refusal).toMatchObject(unreachable);
    expect(refusal.cause).toMatch(/^.*ECONNREFUSED.*$/);
  });

  test.each([
    ["5 s", 25_000, 5_000, "No connection within 5000 ms."],
    ["the app's own timeout", 4_500, 4_500, "No connection within the app's timeout."],
  ])(
    "because no connection is there within %s, gets no run and keeps no connection",
    async (_, timeoutMs, msMax, cause) => {
      const clock = createManualClock();
      const closed: Promise<unknown>[] = [];
      await using server = await serveTcp((socket) => closed.push(once(socket.resume(), "close")));
      await using runner = openAppRunner({ clock, timers: clock });
      const target = `127.0.0.1:${server.port}`;
      const runs = [false, true].map((tls) =>
        refusalOf(runner.run(runOf(appOn({ kind: "grpc", target, tls }, { timeoutMs })))),
      );
      await expect.poll(() => closed.length).toBe(2);
      clock.advance(msMax - 1);
      await expectPending(Promise.race(runs));
      clock.advance(1);
      for (const refusal of await Promise.all(runs)) expect(refusal).toMatchObject({ ...unreachable, cause });
      await Promise.all(closed);
    },
  );

  test("that does not speak gRPC gets no run", async () => {
    await using server = await serveHttp((_, response) => response.end("hello"));
    const target = new URL(server.backend.url).host;
    await using runner = openAppRunner();
    const refusal = await refusalOf(runner.run(runOf(appOn({ kind: "grpc", target, tls: false }))));
    expect(refusal).toMatchObject(unreachable);
  });

  test("that has no TLS gets no run where TLS is required", async () => {
    await using server = await serveGrpc((_, answer) => answer(null, { text: "in the clear" }));
    const target = `localhost:${server.port}`;
    await using runner = openAppRunner();
    const refusal = await refusalOf(runner.run(runOf(appOn({ kind: "grpc", target, tls: true }))));
    expect(refusal).toMatchObject(unreachable);
    expect(server.seen.runs).toBe(0);
  });

  test("and was there before fails a run on the broken connection as sent, and the next as not sent", async () => {
    const port = await freePort();
    const server = await serveGrpc((_, answer) => answer(null, { text: "here" }), port);
    const sockets: Socket[] = [];
    const proxy = await serveTcp((socket) => {
      sockets.push(socket);
      const onward = connect(server.port, "127.0.0.1");
      socket.pipe(onward).pipe(socket);
      onward.on("error", () => {});
    });
    await using runner = openAppRunner();
    const app = appOn({ kind: "grpc", target: `127.0.0.1:${proxy.port}`, tls: false });
    expect(await runner.run(runOf(app))).toBe("here");
    sockets[0]!
      .unpipe()
      .once("data", () => sockets[0]!.resetAndDestroy())
      .resume();
    expect(await refusalOf(runner.run(runOf(app)))).toMatchObject({ reason: "APP_FAILED", mayHaveRun: true });
    await proxy[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
    expect(await refusalOf(runner.run(runOf(app)))).toMatchObject(unreachable);
  });

  test("is used again once it is back", async () => {
    const port = await freePort();
    await using runner = openAppRunner();
    const app = appOn({ kind: "grpc", target: `127.0.0.1:${port}`, tls: false });
    await refusalOf(runner.run(runOf(app)));
    await using _server = await serveGrpc((_, answer) => answer(null, { text: "back" }), port);
    await vi.waitFor(async () => expect(await runner.run(runOf(app))).toBe("back"), { timeout: 60_000 });
  });
});

describe("a run that ends before the backend responds", () => {
  test("past its timeout, and not before, is APP_TIMEOUT, and the backend sees the call cancelled", async () => {
    const clock = createManualClock();
    const arrived = Promise.withResolvers<void>();
    const cancelled = Promise.withResolvers<void>();
    await using server = await serveGrpc((call) => {
      call.on("cancelled", cancelled.resolve);
      arrived.resolve();
    });
    await using runner = openAppRunner({ clock, timers: clock });
    const running = refusalOf(runner.run(runOf(appOn(server.backend, { timeoutMs: 300_000 }))));
    await arrived.promise;
    clock.advance(299_999);
    await expectPending(running);
    clock.advance(1);
    expect(await running).toMatchObject({ reason: "APP_TIMEOUT", mayHaveRun: true });
    await cancelled.promise;
  });

  test("is APP_TIMEOUT if the backend says that its deadline has passed", async () => {
    await using server = await serveGrpc((_, answer) => answer({ code: status.DEADLINE_EXCEEDED }));
    await using runner = openAppRunner();
    expect(await refusalOf(runner.run(runOf(appOn(server.backend))))).toMatchObject({
      reason: "APP_TIMEOUT",
      mayHaveRun: true,
    });
  });

  test("is APP_TIMEOUT if the backend resets it at the deadline, before we do", async () => {
    const clock = createManualClock();
    await using server = await serveHttp2((stream) => {
      clock.advance(10_000);
      stream.close(constants.NGHTTP2_CANCEL);
    });
    await using runner = openAppRunner({ clock });
    const refusal = await refusalOf(runner.run(runOf(appOn(server.backend, { timeoutMs: 10_000 }))));
    expect(refusal).toMatchObject({ reason: "APP_TIMEOUT", mayHaveRun: true });
  });

  test("is CANCELLED if the caller leaves, and the backend sees the call cancelled", async () => {
    const arrived = Promise.withResolvers<void>();
    const cancelled = Promise.withResolvers<void>();
    await using server = await serveGrpc((call) => {
      call.on("cancelled", cancelled.resolve);
      arrived.resolve();
    });
    await using runner = openAppRunner();
    const caller = callerThatLeaves();
    const running = refusalOf(runner.run(runOf(appOn(server.backend), { signal: caller.signal })));
    await arrived.promise;
    caller.leave();
    expect(await running).toMatchObject({ reason: "CANCELLED", mayHaveRun: true });
    await cancelled.promise;
  });

  test("whose backend went silent does not harm the next one, which gets a new connection", async () => {
    await using server = await serveGrpc((_, answer) => answer(null, { text: "here" }));
    const clock = createManualClock();
    const silent = new Set<Socket>();
    const swallowed = Promise.withResolvers<void>();
    const through: Socket[] = [];
    await using proxy = await serveTcp((socket) => {
      through.push(socket);
      const onward = connect(server.port, "127.0.0.1");
      socket
        .on("data", (bytes) => (silent.has(socket) ? swallowed.resolve() : onward.write(bytes)))
        .on("close", () => onward.destroy());
      onward.on("data", (bytes) => silent.has(socket) || socket.write(bytes)).on("error", () => {});
    });
    await using runner = openAppRunner({ clock, timers: clock });
    const backend = { kind: "grpc", target: `127.0.0.1:${proxy.port}`, tls: false } as const;
    expect(await runner.run(runOf(appOn(backend)))).toBe("here");
    silent.add(through[0]!);
    const running = refusalOf(runner.run(runOf(appOn(backend, { timeoutMs: 300_000 }))));
    await swallowed.promise;
    clock.advance(300_000);
    expect(await running).toMatchObject({ reason: "APP_TIMEOUT" });
    expect(await runner.run(runOf(appOn(backend)))).toBe("here");
    expect(through).toHaveLength(2);
  });
});

/** A plain HTTP/2 server, for behaviour that a gRPC library does not allow a handler. */
async function serveHttp2(handler: (stream: ServerHttp2Stream) => void) {
  const seen = { streams: 0 };
  const sessions = new Set<ServerHttp2Session>();
  const server = createServer();
  server.on("session", (session) => {
    sessions.add(session);
    session.on("error", () => {}).on("close", () => sessions.delete(session));
  });
  server.on("stream", (stream) => {
    seen.streams += 1;
    stream.on("error", () => {});
    handler(stream);
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const target = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    backend: { kind: "grpc", target, tls: false } as const,
    seen,
    async [Symbol.asyncDispose]() {
      for (const session of sessions) session.destroy();
      await new Promise((closed) => server.close(closed));
    },
  };
}
