import type { ServerResponse } from "node:http";
import type { LookupFunction, Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { fail, type Refusal } from "#src/refusal/refusal.ts";
import { createHttpConnections } from "#src/run/http-connections.ts";
import { type AnswerReader, beginExchange, type HttpExchange } from "#src/run/http-exchange.ts";
import { causeOf, serveHttp, serveTcp } from "../harness/app-backends.ts";
import { createManualClock } from "../harness/manual-clock.ts";

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

const never: LookupFunction = () => {};

function openConnections({ connectionsMax = 4, idleAppsMax = 4, lookup = never } = {}) {
  const clock = createManualClock();
  const all = createHttpConnections({
    clock,
    lookup,
    connectionsMax,
    idleAppsMax,
  });
  closers.push(() => all.close());
  /** Begins an exchange of the app, and notes what its reader is called with. */
  const begin = (origin: string, { appId = "shout", onBytes = (_: HttpExchange) => {} } = {}) => {
    const seen = { heads: 0, text: "" };
    const ended = Promise.withResolvers<Refusal | undefined>();
    const reader: AnswerReader = {
      onHead: () => {
        seen.heads += 1;
      },
      onBytes: (bytes) => {
        seen.text += bytes.toString();
        onBytes(exchange);
      },
      onEnd: (refusal) => ended.resolve(refusal),
    };
    const exchange = beginExchange(
      { connections: all.of({ id: appId }, origin), clock },
      { path: "/run", headers: ["X-Own", "1"], body: Buffer.from("{}"), deadlineMs: 10_000, cleanWords },
      reader,
    );
    return { exchange, seen, ended: ended.promise };
  };
  return { all, clock, begin };
}

const cleanWords = (words: string) => words;
const http = (port: number) => `http://127.0.0.1:${port}`;
const originOf = (server: { backend: { url: string } }) => new URL(server.backend.url).origin;

/** Answers each request of a connection with the next of these bytes. */
function serveBytes(...answers: string[]) {
  const sockets: Socket[] = [];
  const left = [...answers];
  return serveTcp((socket) => {
    sockets.push(socket);
    socket.on("data", () => socket.write(left.shift() ?? ""));
  }).then((server) => Object.assign(server, { sockets }));
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

describe("an exchange that waits for a connection", () => {
  test("tells the app the time that is left when it is sent, not when it began", async () => {
    const found = Promise.withResolvers<void>();
    const lookup: LookupFunction = (_, __, answer) =>
      void found.promise.then(() => answer(null, [{ address: "127.0.0.1", family: 4 }]));
    const { begin, clock } = openConnections({ lookup });
    const told: unknown[] = [];
    await using server = await serveHttp((request, response) => {
      told.push(request.headers["x-keyrun-deadline-ms"]);
      response.end("ok");
    });
    const { ended } = begin(`http://app.example:${new URL(server.backend.url).port}`);
    clock.advance(3_000);
    found.resolve();
    expect(await ended).toBeUndefined();
    expect(told).toEqual(["7000"]);
    expect(server.seen).toEqual({ requests: 1, connections: 1 });
  });

  test("ends at once as unreachable when it is aborted, and is not sent once there is a connection", async () => {
    const found = Promise.withResolvers<void>();
    const lookup: LookupFunction = (_, __, answer) =>
      void found.promise.then(() => answer(null, [{ address: "127.0.0.1", family: 4 }]));
    const { begin } = openConnections({ lookup, connectionsMax: 1 });
    await using server = await serveHttp((_, response) => response.end("ok"));
    const origin = `http://app.example:${new URL(server.backend.url).port}`;
    const { exchange, ended } = begin(origin);
    await turn();
    exchange.abort(fail("CANCELLED", { mayHaveRun: true }));
    expect(await ended).toMatchObject({ reason: "APP_UNREACHABLE", mayHaveRun: false });
    expect(exchange.isSent).toBe(false);
    found.resolve();
    expect(await begin(origin).ended).toBeUndefined();
    expect(server.seen).toEqual({ requests: 1, connections: 1 });
  });

  test("is not sent after it was aborted, and leaves its connection to the next", async () => {
    const { begin } = openConnections({ connectionsMax: 1 });
    await using server = await serveHttp((_, response) => response.end("ok"));
    const first = begin(originOf(server));
    expect(await first.ended).toBeUndefined();
    await turn();
    // It would be written to the kept connection in the next turn.
    const second = begin(originOf(server));
    second.exchange.abort(fail("CANCELLED"));
    expect(await second.ended).toMatchObject({ reason: "APP_UNREACHABLE" });
    expect(await begin(originOf(server)).ended).toBeUndefined();
    expect(server.seen).toEqual({ requests: 2, connections: 1 });
  });
});

describe("the answer", () => {
  test.each([
    ["103 Early Hints", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"],
    ["several heads", "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n".repeat(8)],
  ])("may come after %s, and the connection is used again", async (_, interim) => {
    const { begin } = openConnections({ connectionsMax: 1 });
    await using server = await serveBytes(`${interim}${ok}`, ok);
    for (let runs = 0; runs < 2; runs += 1) {
      const { ended, seen } = begin(http(server.port));
      expect(await ended).toBeUndefined();
      expect(seen).toEqual({ heads: 1, text: "ok" });
      await turn();
    }
    expect(server.sockets).toHaveLength(1);
  });

  test("fails after 100 Continue, which no call asks for", async () => {
    const { begin } = openConnections();
    await using server = await serveBytes(`HTTP/1.1 100 Continue\r\n\r\n${ok}`);
    const refusal = await begin(http(server.port)).ended;
    expect(refusal).toMatchObject({ reason: "APP_FAILED", mayHaveRun: true });
  });

  test("fails after 65 interim heads", async () => {
    const { begin } = openConnections();
    await using server = await serveBytes(`${"HTTP/1.1 102 Processing\r\n\r\n".repeat(65)}${ok}`, ok);
    const refusal = await begin(http(server.port)).ended;
    expect(refusal).toMatchObject({ reason: "APP_FAILED", mayHaveRun: true });
    expect(refusal && causeOf(refusal)).toMatch(/more than 64 heads/);
    expect(server.sockets).toHaveLength(1);
  });

  test("is whole at the end of the connection if it has no length", async () => {
    const { begin } = openConnections();
    await using server = await serveTcp((socket) =>
      socket.once("data", () => socket.end("HTTP/1.1 200 OK\r\n\r\nall of it")),
    );
    const { ended, seen } = begin(http(server.port));
    expect(await ended).toBeUndefined();
    expect(seen.text).toBe("all of it");
  });

  test("ends at its length. Bytes past it are not read, and the connection is not used again", async () => {
    const { begin } = openConnections({ connectionsMax: 1 });
    await using server = await serveBytes(`${ok} and HTTP/1.1 200 OK`, ok);
    const first = begin(http(server.port));
    expect(await first.ended).toBeUndefined();
    expect(first.seen.text).toBe("ok");
    await turn();
    const second = begin(http(server.port));
    expect(await second.ended).toBeUndefined();
    expect(second.seen.text).toBe("ok");
    expect(server.sockets).toHaveLength(2);
  });

  test("comes over a new connection if the server keeps one for a second at most", async () => {
    const { begin } = openConnections({ connectionsMax: 1 });
    await using server = await serveHttp((_, response) =>
      response.writeHead(200, { "Keep-Alive": "timeout=1" }).end("ok"),
    );
    for (let runs = 0; runs < 3; runs += 1) {
      expect(await begin(originOf(server)).ended).toBeUndefined();
      await turn();
    }
    expect(server.seen).toEqual({ requests: 3, connections: 3 });
  });

  test("that comes before the whole of a long request was taken closes the connection", async () => {
    const { all, clock, begin } = openConnections({ connectionsMax: 1 });
    // What comes after its first bytes is not read.
    await using server = await serveTcp((socket) => socket.once("data", () => socket.pause().write(ok)));
    const ended = Promise.withResolvers<Refusal | undefined>();
    const reader: AnswerReader = { onHead() {}, onBytes() {}, onEnd: ended.resolve };
    const connections = all.of({ id: "shout" }, http(server.port));
    const body = Buffer.alloc(32_000_000);
    beginExchange(
      { connections, clock },
      { path: "/", headers: [], body, deadlineMs: 10_000, cleanWords },
      reader,
    );
    expect(await ended.promise).toBeUndefined();
    await turn();
    expect(await begin(http(server.port)).ended).toBeUndefined();
  });

  test("waits with its sender while it is paused, and is whole after that", async () => {
    const { begin } = openConnections();
    const written = { bytes: 0 };
    const total = 64 * 1024 * 1024;
    await using server = await serveHttp((_, response) => writeAll(response, total, written));
    const pause = (exchange: HttpExchange) => exchange.pause();
    const { exchange, ended, seen } = begin(originOf(server), { onBytes: pause });
    await expect.poll(() => seen.text.length > 0).toBe(true);
    const held = seen.text.length;
    expect(held).toBeLessThanOrEqual(128 * 1024);
    // Only as much as the buffers of the sockets hold.
    expect(written.bytes).toBeLessThan(total / 2);
    expect(seen.text.length).toBe(held);
    const resuming = setInterval(() => exchange.resume(), 0);
    expect(await ended).toBeUndefined();
    clearInterval(resuming);
    expect(seen.text.length).toBe(total);
  });
});

test("an abort in the middle of the answer ends the exchange with its refusal, and the server sees it", async () => {
  const { begin } = openConnections();
  const closed = Promise.withResolvers<void>();
  await using server = await serveHttp((_, response) => {
    response.on("close", closed.resolve).write("begun");
  });
  const left = fail("CANCELLED", { mayHaveRun: true });
  const { ended, seen } = begin(originOf(server), { onBytes: (exchange) => exchange.abort(left) });
  expect(await ended).toBe(left);
  expect(seen.text).toBe("begun");
  await closed.promise;
});

describe("the connections", () => {
  test("of an app whose URL has changed are closed, but not under an exchange", async () => {
    const { all, begin } = openConnections();
    const waiting: ServerResponse[] = [];
    await using old = await serveHttp((_, response) => waiting.push(response));
    await using other = await serveHttp((_, response) => response.end("other"));
    const running = begin(originOf(old));
    await expect.poll(() => waiting.length).toBe(1);
    const { pool } = all.of({ id: "shout" }, originOf(old));
    const next = begin(originOf(other));
    expect(await next.ended).toBeUndefined();
    waiting[0]?.end("old");
    expect(await running.ended).toBeUndefined();
    expect(running.seen.text).toBe("old");
    await expect.poll(() => pool.destroyed).toBe(true);
  });

  test("of two apps on one server are not shared: one that waits takes none of the other's", async () => {
    const { begin } = openConnections({ connectionsMax: 1 });
    await using server = await serveHttp((request, response) => {
      if (server.seen.requests > 1) response.end(request.headers["x-own"]);
    });
    const stuck = begin(originOf(server), { appId: "stuck" });
    await expect.poll(() => server.seen.requests).toBe(1);
    const other = begin(originOf(server), { appId: "other" });
    expect(await other.ended).toBeUndefined();
    stuck.exchange.abort(fail("CANCELLED"));
  });

  test("of apps without a run are closed when more apps come than are kept", async () => {
    const { all, begin } = openConnections({ idleAppsMax: 3 });
    const waiting: ServerResponse[] = [];
    await using server = await serveHttp((_, response) => waiting.push(response));
    const busy = begin(originOf(server), { appId: "busy" });
    await expect.poll(() => waiting.length).toBe(1);
    const pools: ReturnType<typeof all.of>["pool"][] = [];
    for (let number = 0; number < 10; number += 1) {
      const appId = `app-${number}`;
      const { ended } = begin(originOf(server), { appId });
      await expect.poll(() => waiting.length).toBe(number + 2);
      waiting.at(-1)?.end("ok");
      expect(await ended).toBeUndefined();
      pools.push(all.of({ id: appId }, originOf(server)).pool);
    }
    await expect.poll(() => pools.filter(({ destroyed }) => !destroyed).length).toBeLessThanOrEqual(3);
    waiting[0]?.end("ok");
    expect(await busy.ended).toBeUndefined();
  });
});

test("an exchange after the close ends as unreachable", async () => {
  const { all, clock } = openConnections();
  const connections = all.of({ id: "shout" }, "http://127.0.0.1:9");
  all.close();
  const ended = Promise.withResolvers<Refusal | undefined>();
  const reader: AnswerReader = { onHead() {}, onBytes() {}, onEnd: ended.resolve };
  const call = { path: "/", headers: [], body: Buffer.from("{}"), deadlineMs: 10, cleanWords };
  beginExchange({ connections, clock }, call, reader);
  const refusal = await ended.promise;
  expect(refusal).toMatchObject({ reason: "APP_UNREACHABLE" });
  expect(refusal && causeOf(refusal)).toMatch(/destroyed/);
});

function writeAll(response: ServerResponse, total: number, written: { bytes: number }): void {
  const piece = "x".repeat(64 * 1024);
  const more = () => {
    while (written.bytes < total) {
      written.bytes += piece.length;
      if (!response.write(piece)) return void response.once("drain", more);
    }
    response.end();
  };
  more();
}
