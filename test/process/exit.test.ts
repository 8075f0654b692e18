import { fileURLToPath } from "node:url";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { afterAll, expect, test } from "vitest";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { withAuthorization } from "../harness/keyrun.ts";
import { keyrunCommand, restRun, serveKeyrun } from "../harness/keyrun-process.ts";
import { startNameServer } from "../harness/name-server.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

const folders = createTempFolders();
afterAll(() => folders.remove());

const preload = fileURLToPath(new URL("../harness/other-name-files.ts", import.meta.url));
const pendingRuns = 24;
/** Longer than a process ever takes to end by itself. A timer of the preload is never over. */
const endMsMax = 60_000;

test("the process ends when it has said that it stopped, whatever is still pending in it", async () => {
  await using names = await startNameServer();
  const keyrun = await serveKeyrun(folders.create(), {
    NODE_OPTIONS: `--import ${preload}`,
    KEYRUN_TEST_RESOLV_CONF: names.files().resolver,
    KEYRUN_DRAIN_MS_MAX: "200",
  });
  const sessionManager = new Http2SessionManager(keyrun.internalUrl);
  const interceptors = [withAuthorization(`Bearer ${keyrun.serviceToken()}`)];
  const transport = createGrpcTransport({ baseUrl: keyrun.internalUrl, sessionManager, interceptors });
  const apps = createClient(AppService, transport);
  for (let at = 0; at < pendingRuns; at += 1) {
    names.set(`silent-${at}.example`, "silent");
    const kind =
      at % 2 === 0
        ? ({ case: "http", value: { url: `http://silent-${at}.example/` } } as const)
        : ({ case: "grpc", value: { target: `silent-${at}.example:9001`, tls: false } } as const);
    await apps.createApp({ app: { id: `silent-${at}`, backend: { kind } } });
  }
  sessionManager.abort();
  const command = ["keys", "create", "--team", "demo"];
  const { stdout } = await keyrunCommand({ KEYRUN_DATA_DIR: keyrun.dataDir }, command);
  const runs = Array.from({ length: pendingRuns }, (_, at) =>
    restRun(keyrun.publicUrl, { value: stdout.trim(), appId: `silent-${at}` }),
  );
  await expect.poll(() => new Set(names.asked).size, { timeout: 60_000 }).toBe(pendingRuns);

  keyrun.kill("SIGTERM");
  await keyrun.until(() => keyrun.stderr().includes('"msg":"stopped"'));
  const stuck = setTimeout(() => keyrun.kill("SIGKILL"), endMsMax);
  expect(await keyrun.exited).toEqual({ code: 0, signal: null });
  clearTimeout(stuck);
  for (const { status } of await Promise.all(runs)) expect(status).toBe(503);
});
