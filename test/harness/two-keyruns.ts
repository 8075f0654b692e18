import { randomBytes } from "node:crypto";
import { freePort } from "./free-port.ts";
import { type Keyrun, type KeyrunOptions, startKeyrun } from "./keyrun.ts";
import { createMongoDatabases } from "./mongo-databases.ts";
import { mongodbUri } from "./needs.ts";
import { type RedisServer, redisMissing, startRedis } from "./redis-server.ts";

/** Why this machine can't start a fleet; undefined if it can. */
export function fleetMissing(): string | undefined {
  return mongodbUri === "" ? "there is no MongoDB server" : redisMissing();
}

export type TwoKeyruns = Awaited<ReturnType<typeof startTwoKeyruns>>;

/**
 * Two instances of one fleet in this process, on a new database and a Redis of their own. `each`
 * has options for one of them, by its place.
 */
export async function startTwoKeyruns({
  settings = {},
  each = [{}, {}],
}: {
  settings?: Readonly<Record<string, string>>;
  each?: readonly [KeyrunOptions, KeyrunOptions];
} = {}) {
  const databases = createMongoDatabases();
  const redis: RedisServer = await startRedis();
  const shared = {
    KEYRUN_MONGODB_URI: databases.createUri(),
    KEYRUN_REDIS_URL: redis.url,
    KEYRUN_SECRET: randomBytes(32).toString("base64url"),
    KEYRUN_SERVICE_TOKEN: randomBytes(32).toString("base64url"),
    // With shares, a new instance admits nothing for a minute if the machine is busy for 100 ms.
    KEYRUN_LIMIT_FALLBACK: "refuse",
    ...settings,
  };
  const start = async (options: KeyrunOptions): Promise<Keyrun> => {
    const port = String(await freePort());
    const own = { KEYRUN_GRPC_PORT: port, KEYRUN_ADVERTISE_ADDRESS: `127.0.0.1:${port}` };
    return startKeyrun({ isPatient: true, ...options, settings: { ...shared, ...own, ...options.settings } });
  };
  const one = await start(each[0]);
  const other = await start(each[1]);
  return {
    one,
    other,
    redis,
    /** Starts one more. The caller closes it. */
    start,
    async close() {
      await Promise.all([one.close(), other.close()]);
      await redis.kill();
      await databases.drop();
    },
  };
}
