import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { createClient } from "redis";
import { onTestFinished } from "vitest";
import { freePort } from "./free-port.ts";
import { describeWith } from "./needs.ts";
import { createTempFolders } from "./temp-folders.ts";

/** A Redis server for tests, which keeps nothing on disk. */
export interface RedisServer {
  readonly port: number;
  readonly url: string;
  readonly pid: number;
  /** Ends it by SIGKILL, as a crash would. What it held is lost. */
  kill(): Promise<void>;
  /** Stops the process without ending it: its connections stay open. */
  freeze(): void;
  thaw(): void;
}

/** Why there is no server here; undefined if `redis-server` is installed. */
export function redisMissing(): string | undefined {
  return spawnSync("redis-server", ["--version"], { stdio: "ignore" }).status === 0
    ? undefined
    : "redis-server is not installed";
}

/** Starts `redis-server`, on a free port unless one is given, and waits until it is ready. */
export async function startRedis(
  options: readonly string[] = [],
  port: number | undefined = undefined,
): Promise<RedisServer> {
  const folders = createTempFolders();
  const ownPort = port ?? (await freePort());
  const child = spawn(
    "redis-server",
    [
      ...["--port", String(ownPort), "--bind", "127.0.0.1", "--dir", folders.create()],
      ...["--save", "", "--appendonly", "no", ...options],
    ],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  const killAtExit = () => child.kill("SIGKILL");
  process.once("exit", killAtExit);
  const lines: string[] = [];
  let isReady = false;
  for await (const line of createInterface({ input: child.stdout })) {
    lines.push(line);
    isReady = line.includes("Ready to accept connections");
    if (isReady) break;
  }
  if (!isReady || child.pid === undefined) {
    throw new Error(`redis-server ended before it was ready:\n${lines.join("\n")}`);
  }
  child.stdout.resume();
  return {
    port: ownPort,
    url: `redis://127.0.0.1:${ownPort}`,
    pid: child.pid,
    async kill() {
      process.off("exit", killAtExit);
      if (child.exitCode === null && child.signalCode === null) {
        child.kill("SIGKILL");
        await once(child, "exit");
      }
      folders.remove();
    },
    freeze: () => void child.kill("SIGSTOP"),
    thaw: () => void child.kill("SIGCONT"),
  };
}

/** A server that ends with the test. */
export async function redisOfTest(options: readonly string[] = [], port?: number): Promise<RedisServer> {
  const server = await startRedis(options, port);
  onTestFinished(() => {
    server.thaw();
    return server.kill();
  });
  return server;
}

/** A client of it, which ends with the test. */
export async function clientOfTest({ url }: RedisServer) {
  const client = createClient({ url, RESP: 2, socket: { reconnectStrategy: false } });
  client.on("error", () => {});
  await client.connect();
  onTestFinished(() => client.destroy());
  return client;
}

/** A suite on Redis. */
export function describeOnRedis(name: string, suite: () => void): void {
  describeWith(redisMissing())(name, suite);
}
