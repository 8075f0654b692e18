import type { ServerResponse } from "node:http";
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { fail } from "#src/refusal/refusal.ts";
import {
  appOn,
  callerThatLeaves,
  openAppRunner,
  refusalOf,
  runOf,
  serveGrpc,
  serveHttp,
  serveTcp,
} from "../harness/app-backends.ts";

test("echo returns its input, up to the bound of every output", async () => {
  await using runner = openAppRunner({ outputBytesMax: 4 });
  const app = appOn({ kind: "echo" });
  expect(await runner.run(runOf(app, { text: "" }))).toBe("");
  expect(await runner.run(runOf(app, { text: "éé" }))).toBe("éé");
  expect(await refusalOf(runner.run(runOf(app, { text: "éé." })))).toMatchObject({ reason: "APP_FAILED" });
});

describe("the bound of runs at once", () => {
  test("refuses one run too many before it starts, for this app only, and each end of a run frees a slot", async () => {
    const waiting: ServerResponse[] = [];
    await using server = await serveHttp((_, response) => waiting.push(response));
    await using runner = openAppRunner({ appRunsMax: 2 });
    const app = appOn(server.backend);
    const start = (of = app) => runner.run(runOf(of));
    const arrived = (count: number) => expect.poll(() => server.seen.requests).toBe(count);

    const first = start();
    const second = start();
    await arrived(2);
    expect(await refusalOf(start())).toMatchObject({
      reason: "APP_BUSY",
      mayHaveRun: false,
      retryAfterMs: 1_000,
    });
    expect(server.seen.requests).toBe(2);

    const another = start(appOn(server.backend, { id: "another" }));
    await arrived(3);
    waiting[2]?.end('{"text":"other"}');
    expect(await another).toBe("other");

    waiting[0]?.end('{"text":"ok"}');
    waiting[1]?.end("no JSON");
    // Either run may have failed, because two connections race to the server.
    const ended = await Promise.allSettled([first, second]);
    expect(ended.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);

    const third = start();
    const fourth = start();
    await arrived(5);
    for (const response of waiting.slice(3)) response.end('{"text":"again"}');
    expect(await Promise.all([third, fourth])).toEqual(["again", "again"]);
  });

  test("counts no run after its timeout or after its caller has left, for both kinds of backend", async () => {
    await using http = await serveHttp(() => {});
    await using grpc = await serveGrpc(() => {});
    await using runner = openAppRunner({ appRunsMax: 1 });
    for (const server of [http, grpc]) {
      for (let round = 0; round < 3; round += 1) {
        const late = appOn(server.backend, { timeoutMs: 30 });
        // On a busy machine even the connection may come too late.
        const { reason } = await refusalOf(runner.run(runOf(late)));
        expect(["APP_TIMEOUT", "APP_UNREACHABLE"]).toContain(reason);
        const caller = callerThatLeaves();
        const running = refusalOf(runner.run(runOf(appOn(server.backend), { signal: caller.signal })));
        expect(await refusalOf(runner.run(runOf(late)))).toMatchObject({ reason: "APP_BUSY" });
        caller.leave();
        expect(await running).toMatchObject({ reason: "CANCELLED" });
      }
    }
  });
});

test("a run whose caller leaves before there is a connection frees its slot, and closes what was begun", async () => {
  const closed: Promise<unknown>[] = [];
  // It accepts the connection, and never agrees on TLS.
  await using server = await serveTcp((socket) => {
    closed.push(new Promise((resolve) => socket.resume().on("close", resolve)));
  });
  await using runner = openAppRunner({ appRunsMax: 1 });
  const app = appOn({ kind: "http", url: `https://127.0.0.1:${server.port}/`, headers: [] });
  for (let round = 1; round <= 2; round += 1) {
    const caller = callerThatLeaves();
    const running = refusalOf(runner.run(runOf(app, { signal: caller.signal })));
    await expect.poll(() => closed.length).toBe(round);
    expect(await refusalOf(runner.run(runOf(app)))).toMatchObject({ reason: "APP_BUSY" });
    caller.leave();
    expect(await running).toMatchObject({ reason: "CANCELLED" });
  }
  await Promise.all(closed);
});

describe("the end of a run", () => {
  test("is the refusal with which its caller is gone", async () => {
    await using server = await serveHttp(() => {});
    await using runner = openAppRunner();
    const caller = callerThatLeaves();
    const running = refusalOf(runner.run(runOf(appOn(server.backend), { signal: caller.signal })));
    await expect.poll(() => server.seen.requests).toBe(1);
    const stopping = fail("UNAVAILABLE", { mayHaveRun: true });
    caller.leave(stopping);
    expect(await running).toBe(stopping);
  });

  test("comes before the run is sent if the caller has left already", async () => {
    await using server = await serveHttp((_, response) => response.end('{"text":""}'));
    await using runner = openAppRunner();
    const app = appOn(server.backend);
    const caller = callerThatLeaves();
    caller.leave();
    expect(await refusalOf(runner.run(runOf(app, { signal: caller.signal })))).toMatchObject({
      reason: "CANCELLED",
    });
    await runner.run(runOf(app));
    expect(server.seen.requests).toBe(1);
  });

  test("is not touched by a caller that leaves after it", async () => {
    await using runner = openAppRunner();
    await using server = await serveHttp((_, response) => response.end('{"text":""}'));
    const caller = callerThatLeaves();
    const app = appOn(server.backend);
    await runner.run(runOf(app, { signal: caller.signal }));
    caller.leave();
    await turn();
    await runner.run(runOf(app));
    expect(server.seen).toEqual({ requests: 2, connections: 1 });
  });

  test("is UNAVAILABLE as possibly run when the runner closes, and later runs are refused", async () => {
    await using http = await serveHttp(() => {});
    await using grpc = await serveGrpc(() => {});
    const runner = openAppRunner();
    const running = [http, grpc].map((server) => refusalOf(runner.run(runOf(appOn(server.backend)))));
    await expect.poll(() => [http.seen.requests, grpc.seen.runs]).toEqual([1, 1]);
    await runner.close();
    for (const refusal of await Promise.all(running)) {
      expect(refusal).toMatchObject({ reason: "UNAVAILABLE", mayHaveRun: true });
    }
    expect(await refusalOf(runner.run(runOf(appOn(http.backend))))).toMatchObject({
      reason: "UNAVAILABLE",
      mayHaveRun: false,
    });
  });
});
