import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../test/harness/free-port.ts";
import { mongoServerProgram } from "../test/harness/mongo-server.ts";
import { spawnServer } from "./child-server.ts";

/** What the instances of a fleet share. */
export interface FleetBasis {
  /** The settings that every instance gets. */
  readonly settings: Readonly<Record<string, string>>;
  readonly redisPid: number;
  stop(): Promise<void>;
}

/**
 * Starts a Redis and a MongoDB-compatible server for a fleet, or says what is missing here for
 * them.
 */
export async function startFleetBasis(): Promise<FleetBasis | { readonly missing: string }> {
  if (spawnSync("redis-server", ["--version"]).error) return { missing: "redis-server is not installed" };
  const program = mongoServerProgram();
  if ("missing" in program) return program;
  const folder = mkdtempSync(join(tmpdir(), "keyrun-bench-fleet-"));
  const mongo = await program.start(folder);
  const redisPort = await freePort();
  const redis = await spawnServer(
    ["redis-server", "--port", String(redisPort), "--save", "", "--dir", folder],
    /Ready to accept connections/,
  );
  const mongodb = new URL(mongo.uri);
  mongodb.pathname = "/bench";
  return {
    redisPid: redis.pid,
    settings: {
      KEYRUN_MONGODB_URI: mongodb.href,
      KEYRUN_REDIS_URL: `redis://127.0.0.1:${redisPort}`,
      KEYRUN_SECRET: randomBytes(32).toString("base64url"),
      KEYRUN_SERVICE_TOKEN: randomBytes(32).toString("hex"),
    },
    async stop() {
      await redis.stop();
      await mongo.kill();
      rmSync(folder, { recursive: true });
    },
  };
}
