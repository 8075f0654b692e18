import { freePort } from "./free-port.ts";
import { type RedisServer, startRedis } from "./redis-server.ts";

/** The Redis of a fleet, which keeps its port over its ends. */
export interface FleetRedis extends Pick<RedisServer, "port" | "freeze" | "thaw" | "kill"> {
  /** Starts it again after its end, empty. */
  start(): Promise<void>;
}

export async function startFleetRedis(): Promise<FleetRedis> {
  let server = await startRedis([], await freePort());
  const { port } = server;
  return {
    port,
    freeze: () => server.freeze(),
    thaw: () => server.thaw(),
    kill: () => server.kill(),
    async start() {
      server = await startRedis([], port);
    },
  };
}
