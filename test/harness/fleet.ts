import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fakeTimeLibrary } from "./fleet-programs.ts";
import { type FleetProxies, type FleetProxy, openFleetProxies } from "./fleet-proxies.ts";
import { type FleetRedis, startFleetRedis } from "./fleet-redis.ts";
import { freePort } from "./free-port.ts";
import { manage } from "./keyrun.ts";
import {
  type KeyrunProcess,
  type ServingKeyrun,
  type Settings,
  serveKeyrun,
  spawnKeyrun,
  statusOf,
} from "./keyrun-process.ts";
import { type MongoServer, mongoServerProgram } from "./mongo-server.ts";
import { createTempFolders, databasesFolder } from "./temp-folders.ts";

/** One place of a fleet: its ports, proxies and folder stay while its process comes and goes. */
export interface FleetMember {
  /** From 0. */
  readonly place: number;
  readonly publicUrl: string;
  readonly internalUrl: string;
  /** Its own ways to MongoDB, to Redis, and of nudges to it. */
  readonly mongo: FleetProxy;
  readonly redis: FleetProxy;
  readonly nudges: FleetProxy;
  /** The process that was started last. */
  process(): ServingKeyrun;
  /**
   * The lines in which its processes say that the machine was too busy for them. Without one, no
   * answer 503 is excused by that.
   */
  starvation(): string[];
  /** Starts the process, and resolves once it is ready. */
  start(settings?: Settings): Promise<void>;
  /** Ends it by SIGTERM. Rejects if it does not exit well. */
  stop(): Promise<void>;
  /** Ends it by SIGKILL. */
  kill(): Promise<void>;
  pause(): void;
  resume(): void;
  /** Steps the wall clock of the process, and of those that follow. From now, not from before. */
  setClock(offsetSeconds: number): void;
  /** Resolves once `/readyz` answers this. */
  untilReadyz(status: 200 | 503): Promise<void>;
}

/** Real Keyruns on one MongoDB-compatible server and one Redis. */
export interface Fleet {
  readonly members: readonly FleetMember[];
  readonly redis: FleetRedis;
  readonly serviceToken: string;
  /** The settings of all members. */
  readonly settings: Settings;
  /** Clients of a member's internal listener, which ask again where it can't answer now. */
  manage(place?: number): ReturnType<typeof manage>;
  /** Settings with which a further process joins, without proxies, and others that replace them. */
  joining(others?: Settings): Settings;
  /** Those of all members. */
  starvation(): string[];
  /** Starts a process with exactly these settings, which `close` ends. It may refuse. */
  spawn(settings: Settings, command?: readonly string[]): KeyrunProcess;
  /** Ends the MongoDB server by SIGKILL. */
  killMongo(): Promise<void>;
  /** Starts it again, on its data. */
  startMongo(): Promise<void>;
  close(): Promise<void>;
}

export interface FleetOptions {
  /** 3 if absent. */
  readonly size?: number;
  readonly settings?: Settings;
  /** The members whose wall clock the test steps. */
  readonly fakeClocks?: readonly number[];
  /** How a member is started, if not as by `npm start`. */
  readonly command?: readonly string[] | undefined;
  /** False to start the members later. */
  readonly started?: boolean;
  /** A replica set that the test has started. The members' way to it has no proxy. */
  readonly replicaSet?: { readonly uri: string } | undefined;
}

export async function startFleet(options: FleetOptions = {}): Promise<Fleet> {
  const { size = 3, settings: given = {}, fakeClocks = [], command, started = true, replicaSet } = options;
  const folders = createTempFolders();
  const databases = createTempFolders(databasesFolder);
  const dataDir = databases.create();
  let mongo = replicaSet ? { ...replicaSet, kill: async () => {} } : await startMongoServer(dataDir);
  let mongoPort = portOf(mongo.uri);
  const databaseUri = (port: number) => replicaSet?.uri ?? mongoUri(port);
  const redis = await startFleetRedis();
  const proxies = await openFleetProxies();
  const serviceToken = randomBytes(32).toString("base64url");
  const settings: Settings = {
    KEYRUN_SECRET: randomBytes(32).toString("base64url"),
    KEYRUN_SERVICE_TOKEN: serviceToken,
    KEYRUN_PLAN_LIMITS: "free=100000",
    KEYRUN_KEYS_PER_TEAM_MAX: "10000",
    // With shares, a new instance admits nothing for a minute if the machine is busy for 100 ms.
    KEYRUN_LIMIT_FALLBACK: "refuse",
    ...given,
  };
  const members: FleetMember[] = [];
  for (let place = 0; place < size; place += 1) {
    const faked = fakeClocks.includes(place);
    const ports = { mongo: mongoPort, redis: redis.port };
    members.push(
      await openMember(place, {
        ...{ ports, proxies, settings, faked, command, databaseUri },
        folder: folders.create(),
      }),
    );
  }
  const managers: ReturnType<typeof manage>[] = [];
  const processes: KeyrunProcess[] = [];
  const joining = (others: Settings = {}): Settings => ({
    ...settings,
    KEYRUN_PORT: "0",
    KEYRUN_GRPC_PORT: "0",
    KEYRUN_DATA_DIR: folders.create(),
    KEYRUN_MONGODB_URI: databaseUri(mongoPort),
    KEYRUN_REDIS_URL: `redis://127.0.0.1:${redis.port}`,
    ...others,
  });
  const close = async () => {
    for (const each of managers) each.disconnect();
    for (const running of processes) {
      running.kill("SIGKILL");
      await running.exited;
    }
    for (const member of members) await member.kill();
    await proxies.close();
    await redis.kill();
    await mongo.kill();
    databases.remove();
    folders.remove();
  };
  try {
    if (started) for (const member of members) await member.start();
  } catch (thrown) {
    await close();
    throw thrown;
  }
  return {
    ...{ members, redis, serviceToken, settings, joining, close },
    manage(place = 0) {
      const manager = manage(members[place]!.internalUrl, serviceToken, { isPatient: true });
      managers.push(manager);
      return manager;
    },
    starvation: () => members.flatMap((member) => member.starvation()),
    spawn(exact, command) {
      const running = spawnKeyrun(exact, command);
      processes.push(running);
      return running;
    },
    killMongo: () => mongo.kill(),
    async startMongo() {
      mongo = await startMongoServer(dataDir);
      mongoPort = portOf(mongo.uri);
      for (const member of members) await member.mongo.retarget(mongoPort);
    },
  };
}

/** Its event loop was late, Redis took 100 ms, or the store or the others missed a heartbeat. */
export const starved =
  /the event loop is late|Redis does not answer|a heartbeat of this instance failed|took this one for dead/;

interface Place {
  /** Where MongoDB and Redis listen. */
  readonly ports: { readonly mongo: number; readonly redis: number };
  readonly proxies: FleetProxies;
  readonly settings: Settings;
  readonly folder: string;
  readonly faked: boolean;
  readonly command: readonly string[] | undefined;
  databaseUri(port: number): string;
}

async function openMember(
  place: number,
  { ports, proxies, settings, folder, faked, command, databaseUri }: Place,
): Promise<FleetMember> {
  const [port, grpcPort] = [await freePort(), await freePort()];
  const mongo = await proxies.open(ports.mongo);
  const redis = await proxies.open(ports.redis);
  const nudges = await proxies.open(grpcPort);
  const clockFile = join(folder, "clock");
  const setClock = (offsetSeconds: number) =>
    writeFileSync(clockFile, `${offsetSeconds < 0 ? "" : "+"}${offsetSeconds}`);
  setClock(0);
  const own: Settings = {
    KEYRUN_PORT: `${port}`,
    KEYRUN_GRPC_PORT: `${grpcPort}`,
    KEYRUN_MONGODB_URI: databaseUri(mongo.port),
    KEYRUN_REDIS_URL: `redis://127.0.0.1:${redis.port}`,
    KEYRUN_ADVERTISE_ADDRESS: `127.0.0.1:${nudges.port}`,
    ...(faked && fakeTime(clockFile)),
  };
  const processes: ServingKeyrun[] = [];
  let running: ServingKeyrun | undefined;
  const current = () => {
    if (!running) throw new Error(`member ${place} was not started`);
    return running;
  };
  const publicUrl = `http://127.0.0.1:${port}`;
  const kill = async () => {
    running?.kill("SIGKILL");
    await running?.exited;
  };
  return {
    ...{ place, publicUrl, mongo, redis, nudges, kill, setClock },
    internalUrl: `http://127.0.0.1:${grpcPort}`,
    process: current,
    starvation: () =>
      processes.flatMap(({ stderr }) => stderr().split("\n")).filter((line) => starved.test(line)),
    async start(others = {}) {
      running = await serveKeyrun(join(folder, "data"), { ...settings, ...own, ...others }, command);
      processes.push(running);
    },
    async stop() {
      current().kill("SIGTERM");
      const { code, signal } = await current().exited;
      if (code !== 0) throw new Error(`member ${place} ended with ${code ?? signal}: ${current().stderr()}`);
    },
    pause: () => current().kill("SIGSTOP"),
    resume: () => current().kill("SIGCONT"),
    async untilReadyz(status) {
      // Not more often, as it takes the processor from what is to become ready.
      while ((await statusOf(`${publicUrl}/readyz`)) !== status) await pause(25);
    },
  };
}

async function startMongoServer(dataDir: string): Promise<MongoServer> {
  const program = mongoServerProgram();
  if ("missing" in program) throw new Error(program.missing);
  return program.start(dataDir);
}

/** The first, where the URI names several. */
function portOf(uri: string): number {
  return Number(/:(\d+)/.exec(uri)?.[1]);
}

/** A replica set names its own addresses, and the driver would go past the proxy to them. */
function mongoUri(port: number): string {
  return `mongodb://127.0.0.1:${port}/keyrun?directConnection=true`;
}

/** Debian's libfaketime reads the file at every look at the wall clock. */
function fakeTime(file: string): Settings {
  return {
    LD_PRELOAD: fakeTimeLibrary ?? "",
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_NO_CACHE: "1",
    FAKETIME_DONT_FAKE_MONOTONIC: "1",
  };
}
