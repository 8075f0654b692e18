import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { startApp } from "#src/app/start.ts";
import { systemClock } from "#src/clock.ts";
import { createLog } from "#src/log.ts";
import { writeHostAndPort } from "#src/settings/host.ts";
import { readSettings } from "#src/settings/read-settings.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { announce } from "../subject.ts";

// Keyrun as it is started, with a plan that the load does not reach.
const serviceToken = randomBytes(32).toString("base64url");
const dataDir = mkdtempSync(join(tmpdir(), "keyrun-bench-"));
process.on("exit", () => rmSync(dataDir, { recursive: true }));
const settings = readSettings(
  {
    KEYRUN_PORT: "0",
    KEYRUN_GRPC_PORT: "0",
    KEYRUN_DATA_DIR: dataDir,
    KEYRUN_SERVICE_TOKEN: serviceToken,
    KEYRUN_PLAN_LIMITS: "free=100000,pro=100000,team=100000,enterprise=100000",
  },
  () => "",
);
if ("problems" in settings) throw new Error(settings.problems.join("\n"));
const config = settings.ok;
const app = await startApp(config, {
  clock: systemClock,
  log: createLog({ level: "info" }),
  version: "bench",
  openStores: () => openSqliteStores({ dataDir: config.dataDir }),
  announce: () => {},
});
const transport = createGrpcTransport({ baseUrl: `http://${writeHostAndPort(app.internalAddress)}` });
const { value } = await createClient(KeyService, transport).createKey(
  { teamId: "demo" },
  { headers: { authorization: `Bearer ${serviceToken}` } },
);
announce({ port: app.publicAddress.port, apiKey: value });
