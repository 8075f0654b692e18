import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { afterAll, expect, test } from "vitest";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { usageBounds } from "#src/usage/usage-bounds.ts";
import { withAuthorization } from "../harness/keyrun.ts";
import { restRun, type ServingKeyrun, serveKeyrun } from "../harness/keyrun-process.ts";
import { queryStore } from "../harness/stored-bytes.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

const folders = createTempFolders();
const running: ServingKeyrun[] = [];
afterAll(async () => {
  for (const keyrun of running) {
    keyrun.kill("SIGKILL");
    await keyrun.exited;
  }
  folders.remove();
});

async function start(dataDir: string) {
  const keyrun = await serveKeyrun(dataDir, { KEYRUN_PLAN_LIMITS: "free=100000" });
  running.push(keyrun);
  const sessionManager = new Http2SessionManager(keyrun.internalUrl);
  const interceptors = [withAuthorization(`Bearer ${keyrun.serviceToken()}`)];
  const transport = createGrpcTransport({ baseUrl: keyrun.internalUrl, sessionManager, interceptors });
  const keys = createClient(KeyService, transport);
  const accepted = async () => {
    const { points } = await keys.getUsage({ teamId: "demo" });
    return Number(points.reduce((sum, { acceptedCount }) => sum + acceptedCount, 0n));
  };
  const end = async (signal: "SIGKILL" | "SIGTERM") => {
    sessionManager.abort();
    keyrun.kill(signal);
    await keyrun.exited;
  };
  return { keyrun, keys, accepted, end };
}

const storedOf = async (dataDir: string) => {
  const [row] = await queryStore(dataDir, "SELECT sum(accepted_count) AS n FROM usage_hours");
  return Number(row?.n);
};

test("kill -9 loses no more than was counted in the last 10 s, a stop loses nothing, and nothing counts twice", async () => {
  const dataDir = folders.create();
  const first = await start(dataDir);
  const { value = "" } = await first.keys.createKey({ teamId: "demo" });
  const run = async ({ keyrun }: typeof first, times: number) => {
    for (let n = 0; n < times; n++) expect((await restRun(keyrun.publicUrl, { value })).status).toBe(200);
  };
  await run(first, 20);
  const beganMs = performance.now();
  while ((await storedOf(dataDir)) < 20) {
    // Far longer than its time: a busy machine may be late.
    expect(performance.now() - beganMs).toBeLessThan(10 * usageBounds.flushMs);
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  await run(first, 5);
  expect(await first.accepted()).toBe(25);
  await first.end("SIGKILL");

  const second = await start(dataDir);
  const kept = await second.accepted();
  // The last five, unless they were written.
  expect([20, 21, 22, 23, 24, 25]).toContain(kept);
  await run(second, 7);
  await second.end("SIGTERM");
  const third = await start(dataDir);
  expect(await third.accepted()).toBe(kept + 7);
  await third.end("SIGTERM");
});
