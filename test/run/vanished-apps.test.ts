import { expect, onTestFinished, test, vi } from "vitest";
import type { BackendRecord } from "#src/apps/app-store.ts";
import { runBounds } from "#src/run/run-bounds.ts";
import {
  appOn,
  callerThatLeaves,
  expectPending,
  openAppRunner,
  refusalOf,
  runOf,
  serveGrpc,
  serveHttp,
  serveTcp,
} from "../harness/app-backends.ts";
import { frame, framesIn, frameTypes } from "../harness/h2-frames.ts";
import { keepAliveMs } from "../harness/open-sockets.ts";

const { backendPingMs, backendPingAnswerMsMax, backendSilenceMs } = runBounds;

test.each([
  ["HTTP", () => serveHttp(() => {})],
  ["gRPC", () => serveGrpc(() => {})],
] as const)("the system asks the server of an app behind %s after a minute of silence", async (_, serve) => {
  await using server = await serve();
  await using runner = openAppRunner();
  const caller = callerThatLeaves();
  const backend: BackendRecord = server.backend;
  const running = refusalOf(runner.run(runOf(appOn(backend), { signal: caller.signal })));
  await expect.poll(() => Object.values(server.seen).some((count) => count > 0)).toBe(true);
  const port = Number(
    /:(\d+)/.exec(backend.kind === "http" ? new URL(backend.url).host : backend.target)?.[1],
  );
  await expect.poll(() => keepAliveMs(port, "client").length).toBe(1);
  expect(keepAliveMs(port, "client")[0]).toBeLessThanOrEqual(backendSilenceMs);
  caller.leave();
  await running;
});

/** A gRPC server that takes each call and never says anything again, not even to a PING. */
async function serveSilence() {
  let heard = "";
  const server = await serveTcp((socket) => {
    socket.write(frame({ type: frameTypes.settings, flags: 0, stream: 0 }));
    socket.on("data", (bytes) => {
      heard += bytes.toString("latin1");
    });
  });
  const prefaceLength = 24;
  const count = (kind: number) =>
    framesIn(heard.slice(prefaceLength)).filter(({ type }) => type === kind).length;
  return {
    calls: () => count(frameTypes.headers),
    pings: () => count(frameTypes.ping),
    backend: { kind: "grpc", target: `127.0.0.1:${server.port}`, tls: false } as const,
    [Symbol.asyncDispose]: server[Symbol.asyncDispose],
  };
}

test("a gRPC app that answers no PING has failed, long before its own timeout", async () => {
  await using server = await serveSilence();
  await using runner = openAppRunner();
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const running = refusalOf(runner.run(runOf(appOn(server.backend, { timeoutMs: 600_000 }))));
  await vi.waitUntil(() => server.calls() === 1, { timeout: 60_000 });
  await vi.advanceTimersByTimeAsync(backendPingMs - 1);
  expect(server.pings()).toBe(0);
  await vi.advanceTimersByTimeAsync(1);
  await vi.waitUntil(() => server.pings() === 1, { timeout: 60_000 });
  await expectPending(running);
  await vi.advanceTimersByTimeAsync(backendPingAnswerMsMax);
  expect(await running).toMatchObject({ reason: "APP_FAILED", mayHaveRun: true });
});

test("a gRPC app is asked less often than once in 5 minutes, which servers take for an attack", () => {
  expect(backendPingMs).toBeGreaterThan(5 * 60_000);
});
