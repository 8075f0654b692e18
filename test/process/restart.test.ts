import { createServer } from "node:net";
import { afterAll, expect, onTestFinished, test } from "vitest";
import {
  keyrunCommand,
  restRun,
  type ServingKeyrun,
  serveKeyrun,
  spawnKeyrun,
} from "../harness/keyrun-process.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

const folders = createTempFolders();
let running: ServingKeyrun | undefined;
afterAll(async () => {
  running?.kill("SIGKILL");
  await running?.exited;
  folders.remove();
});

const limit = 60;

test("a clean stop keeps the requests of the running minute for the next start that serves, and a kill does not", {
  timeout: 300_000,
}, async () => {
  const dataDir = folders.create();
  const start = async () => {
    running = await serveKeyrun(dataDir);
    return running;
  };
  const spendAll = async ({ publicUrl }: ServingKeyrun) => {
    for (let n = 0; n < limit; n++) expect((await restRun(publicUrl, { value })).status).toBe(200);
    expect((await restRun(publicUrl, { value })).status).toBe(429);
  };
  const first = await start();
  const created = await keyrunCommand({ KEYRUN_DATA_DIR: dataDir }, ["keys", "create", "--team", "demo"]);
  const value = created.stdout.trim();
  const beforeSeconds = Date.now() / 1_000;
  await spendAll(first);
  const afterSeconds = Date.now() / 1_000;
  first.kill("SIGTERM");
  expect(await first.exited).toEqual({ code: 0, signal: null });

  // A start that is refused after it took the window up leaves it to the next one.
  const taken = createServer().listen(0, "127.0.0.1");
  onTestFinished(() => void taken.close());
  await new Promise((resolve) => taken.once("listening", resolve));
  const { port } = taken.address() as { port: number };
  const settings = { KEYRUN_DATA_DIR: dataDir, KEYRUN_PORT: `${port}`, KEYRUN_GRPC_PORT: "0" };
  expect(await spawnKeyrun(settings).exited).toEqual({ code: 1, signal: null });

  const second = await start();
  const refused = await restRun(second.publicUrl, { value });
  expect(refused.status).toBe(429);
  expect(refused.headers.get("ratelimit-limit")).toBe(`${limit}`);
  expect(refused.headers.get("ratelimit-remaining")).toBe("0");
  // The first of the accepted requests leaves after 60 s, wherever the restart was.
  const resetSeconds = Number(refused.headers.get("ratelimit-reset"));
  expect(resetSeconds).toBeGreaterThanOrEqual(Math.floor(beforeSeconds) + 60);
  expect(resetSeconds).toBeLessThanOrEqual(Math.ceil(afterSeconds) + 61);
  const waitMs = Number(refused.headers.get("retry-after-ms"));
  expect(waitMs).toBeLessThan(60_000);
  expect(Math.ceil(waitMs / 1_000)).toBe(Number(refused.headers.get("retry-after")));

  second.kill("SIGKILL");
  await second.exited;
  await spendAll(await start());
});
