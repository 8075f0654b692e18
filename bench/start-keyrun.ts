import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Client, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import { spawnServer } from "./child-server.ts";

export interface StartedKeyrun {
  readonly pid: number;
  readonly port: number;
  readonly internalPort: number;
  readonly serviceToken: string;
  /** They send the service token. */
  readonly teams: Client<typeof TeamService>;
  readonly keys: Client<typeof KeyService>;
  readonly apps: Client<typeof AppService>;
  /** Stops it, and removes its data. */
  stop(): Promise<void>;
}

/**
 * Starts Keyrun as people start it, with a data folder of its own, and with limits that the load
 * does not reach.
 */
export async function startKeyrun(settings: Readonly<Record<string, string>> = {}): Promise<StartedKeyrun> {
  const dataDir = mkdtempSync(join(tmpdir(), "keyrun-bench-"));
  const server = await spawnServer(
    [...programOnThisNode(), "serve"],
    /ready: http:.*:(\d+) \(gRPC .*:(\d+)\)/,
    {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      KEYRUN_PORT: "0",
      KEYRUN_GRPC_PORT: "0",
      KEYRUN_DATA_DIR: dataDir,
      KEYRUN_LOG_LEVEL: "warn",
      KEYRUN_DRAIN_DELAY_MS: "0",
      KEYRUN_PLAN_LIMITS: "free=100000,pro=100000,team=100000,enterprise=100000",
      ...settings,
    },
  );
  const [, port, internalPort] = server.match.map(Number);
  const serviceToken =
    settings.KEYRUN_SERVICE_TOKEN ?? readFileSync(join(dataDir, "service-token"), "utf8").trim();
  const transport = createGrpcTransport({
    baseUrl: `http://127.0.0.1:${internalPort}`,
    interceptors: [
      (next) => (request) => {
        request.header.set("authorization", `Bearer ${serviceToken}`);
        return next(request);
      },
    ],
  });
  return {
    pid: server.pid,
    port: port!,
    internalPort: internalPort!,
    serviceToken,
    teams: createClient(TeamService, transport),
    keys: createClient(KeyService, transport),
    apps: createClient(AppService, transport),
    async stop() {
      await server.stop();
      rmSync(dataDir, { recursive: true });
    },
  };
}

/** What `./keyrun` starts, on this Node. */
function programOnThisNode(): [string, ...string[]] {
  const flags = ["--max-semi-space-size=8", "--initial-old-space-size=100"];
  const program = fileURLToPath(new URL("../bin/keyrun.mjs", import.meta.url));
  return [process.execPath, ...flags, program];
}
