import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import { spawnServer } from "../child-server.ts";
import { announce, appPlace } from "../subject.ts";

// Keyrun as people start it, with teams whose limits the load does not reach together.
const dataDir = mkdtempSync(join(tmpdir(), "keyrun-bench-"));
const program = fileURLToPath(new URL("../../keyrun", import.meta.url));
const { pid, match, stop } = await spawnServer([program, "serve"], /ready: http:.*:(\d+) \(gRPC .*:(\d+)\)/, {
  PATH: process.env.PATH,
  HOME: process.env.HOME,
  KEYRUN_PORT: "0",
  KEYRUN_GRPC_PORT: "0",
  KEYRUN_DATA_DIR: dataDir,
  KEYRUN_LOG_LEVEL: "warn",
  KEYRUN_DRAIN_DELAY_MS: "0",
  KEYRUN_PLAN_LIMITS: "free=100000,pro=100000,team=100000,enterprise=100000",
});
const [port, internalPort] = match.slice(1).map(Number);
const serviceToken = readFileSync(join(dataDir, "service-token"), "utf8").trim();
const transport = createGrpcTransport({ baseUrl: `http://127.0.0.1:${internalPort}` });
const options = { headers: { authorization: `Bearer ${serviceToken}` } };
const teams = createClient(TeamService, transport);
const keys = createClient(KeyService, transport);
const apiKeys: string[] = [];
for (let number = 1; number <= 8; number++) {
  const id = `team-${number}`;
  await teams.createTeam({ team: { id } }, options);
  apiKeys.push((await keys.createKey({ teamId: id }, options)).value);
}
if (appPlace !== "") {
  const kind: { case: "http"; value: { url: string } } | { case: "grpc"; value: { target: string } } =
    appPlace.startsWith("http")
      ? { case: "http", value: { url: appPlace } }
      : { case: "grpc", value: { target: appPlace } };
  await createClient(AppService, transport).createApp({ app: { id: "shout", backend: { kind } } }, options);
}
announce({ port: port!, internalPort: internalPort!, apiKeys, serviceToken, pid }, async () => {
  await stop();
  rmSync(dataDir, { recursive: true });
});
