import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type FleetCaller, openFleetCaller } from "./fleet-caller.ts";
import { freePort } from "./free-port.ts";
import { type Keyrun, type KeyrunOptions, manage, startKeyrun } from "./keyrun.ts";
import {
  type KeyrunProcess,
  type ServingKeyrun,
  type Settings,
  serveKeyrun,
  spawnKeyrun,
  statusOf,
} from "./keyrun-process.ts";
import { createMongoDatabases } from "./mongo-databases.ts";
import { type MongoServer, mongoServerProgram } from "./mongo-server.ts";
import { describeWith, mongodbMissing } from "./needs.ts";
import type { ProxyApi } from "./proxy-thread.ts";
import { type RedisServer, startRedis } from "./redis-server.ts";
import type { TcpProxy } from "./tcp-proxy.ts";
import { createTempFolders, databasesFolder } from "./temp-folders.ts";
import { type Calls, startThread } from "./thread.ts";
import { until } from "./until.ts";

/** Debian's libfaketime, for a process of several threads; undefined if it is not installed. */
const fakeTimeLibrary: string | undefined = ["/usr/lib", "/usr/local/lib"]
  .flatMap((lib) => [lib, ...(existsSync(lib) ? readdirSync(lib).map((name) => join(lib, name)) : [])])
  .map((folder) => join(folder, "faketime", "libfaketimeMT.so.1"))
  .find((path) => existsSync(path));

/** In this process, or in processes of their own with everything around them. */
type FleetPlace = "here" | "processes";

/** What this machine lacks for a fleet; undefined if nothing. */
export function fleetMissing(place: FleetPlace): string | undefined {
  const programs = place === "here" ? ["redis-server"] : ["redis-server", "haproxy"];
  const absent = programs.filter((name) => spawnSync(name, ["-v"], { stdio: "ignore" }).error !== undefined);
  const library = place === "processes" && fakeTimeLibrary === undefined ? ["libfaketime"] : [];
  const missing = [...(mongodbMissing === undefined ? [] : ["MongoDB"]), ...absent, ...library];
  return missing.length === 0 ? undefined : `there is no ${missing.join(", no ")}`;
}

/** A suite with a fleet. */
export function describeFleet(place: FleetPlace): (name: string, suite: () => void) => void {
  return describeWith(fleetMissing(place));
}

/** Two instances in this process, on a new database and a Redis of their own. */
export interface FleetHere {
  readonly members: readonly [Keyrun, Keyrun];
  /** Starts one more. The caller closes it. */
  start(options?: KeyrunOptions): Promise<Keyrun>;
  close(): Promise<void>;
}

interface HereOptions {
  readonly in: "here";
  readonly settings?: Settings;
  /** For one of them, by its place. */
  readonly each?: readonly [KeyrunOptions, KeyrunOptions];
}

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
  /** Starts the process, and resolves once it is ready. Without a command, that of the fleet. */
  start(settings?: Settings, command?: readonly string[]): Promise<void>;
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

/** A proxy in another thread. Each method does what that of `TcpProxy` does, once it resolves. */
export interface FleetProxy extends Pick<TcpProxy, "port"> {
  freeze(): Promise<unknown>;
  freezeOn(text: string): Promise<unknown>;
  delay(ms: number): Promise<unknown>;
  cut(): Promise<unknown>;
  mend(): Promise<unknown>;
  retarget(port: number): Promise<unknown>;
  opened(): Promise<number>;
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
  /** Uses keys at a member. */
  caller(place?: number, options?: Parameters<typeof openFleetCaller>[1]): FleetCaller;
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

/** It keeps its port over its ends. */
interface FleetRedis extends Pick<RedisServer, "port" | "freeze" | "thaw" | "kill"> {
  /** Starts it again after its end, empty. */
  start(): Promise<void>;
}

interface ProcessesOptions {
  readonly in: "processes";
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

export function startFleet(options: HereOptions): Promise<FleetHere>;
export function startFleet(options: ProcessesOptions): Promise<Fleet>;
export function startFleet(options: HereOptions | ProcessesOptions): Promise<FleetHere | Fleet> {
  const settings: Settings = {
    KEYRUN_SECRET: randomBytes(32).toString("base64url"),
    KEYRUN_SERVICE_TOKEN: randomBytes(32).toString("base64url"),
    // With shares, a new instance admits nothing for a minute if the machine is busy for 100 ms.
    KEYRUN_LIMIT_FALLBACK: "refuse",
    ...options.settings,
  };
  return options.in === "here" ? startHere(options, settings) : startProcesses(options, settings);
}

async function startHere({ each = [{}, {}] }: HereOptions, settings: Settings): Promise<FleetHere> {
  const databases = createMongoDatabases();
  const redis = await startRedis();
  const shared = {
    ...settings,
    KEYRUN_MONGODB_URI: databases.createUri(),
    KEYRUN_REDIS_URL: redis.url,
  };
  const start = async (options: KeyrunOptions = {}): Promise<Keyrun> => {
    const port = String(await freePort());
    const own = { KEYRUN_GRPC_PORT: port, KEYRUN_ADVERTISE_ADDRESS: `127.0.0.1:${port}` };
    return startKeyrun({ isPatient: true, ...options, settings: { ...shared, ...own, ...options.settings } });
  };
  const members = [await start(each[0]), await start(each[1])] as const;
  return {
    members,
    start,
    async close() {
      await Promise.all(members.map((member) => member.close()));
      await redis.kill();
      await databases.drop();
    },
  };
}

async function startProcesses(options: ProcessesOptions, given: Settings): Promise<Fleet> {
  const { size = 3, fakeClocks = [], command, started = true, replicaSet } = options;
  const settings = { KEYRUN_PLAN_LIMITS: "free=100000", KEYRUN_KEYS_PER_TEAM_MAX: "10000", ...given };
  const folders = createTempFolders();
  const databases = createTempFolders(databasesFolder);
  const dataDir = databases.create();
  let mongo = replicaSet ? { ...replicaSet, kill: async () => {} } : await startMongoServer(dataDir);
  let mongoPort = portOf(mongo.uri);
  const databaseUri = (port: number) => replicaSet?.uri ?? mongoUri(port);
  const redis = await startFleetRedis();
  const proxies = await startThread<ProxyApi>(new URL("proxy-thread.ts", import.meta.url));
  const { KEYRUN_SERVICE_TOKEN: serviceToken = "" } = given;
  const members: FleetMember[] = [];
  for (let place = 0; place < size; place += 1) {
    const faked = fakeClocks.includes(place);
    const ports = { mongo: mongoPort, redis: redis.port };
    members.push(
      await openMember(place, {
        ...{ ports, proxies: proxies.calls, settings, faked, command, databaseUri },
        folder: folders.create(),
      }),
    );
  }
  const closers: (() => unknown)[] = [];
  const close = async () => {
    for (const each of closers) await each();
    for (const member of members) await member.kill();
    await proxies.end();
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
    ...{ members, redis, serviceToken, settings, close },
    joining: (others = {}) => ({
      ...settings,
      KEYRUN_PORT: "0",
      KEYRUN_GRPC_PORT: "0",
      KEYRUN_DATA_DIR: folders.create(),
      KEYRUN_MONGODB_URI: databaseUri(mongoPort),
      KEYRUN_REDIS_URL: `redis://127.0.0.1:${redis.port}`,
      ...others,
    }),
    manage(place = 0) {
      const manager = manage(members[place]!.internalUrl, serviceToken, { isPatient: true });
      closers.push(manager.disconnect);
      return manager;
    },
    caller(place = 0, options = {}) {
      const { publicUrl, internalUrl } = members[place]!;
      const caller = openFleetCaller({ publicUrl, internalUrl, serviceToken }, options);
      closers.push(caller.close);
      return caller;
    },
    starvation: () => members.flatMap((member) => member.starvation()),
    spawn(exact, command) {
      const running = spawnKeyrun(exact, command);
      closers.push(() => {
        running.kill("SIGKILL");
        return running.exited;
      });
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
  readonly proxies: Calls<ProxyApi>;
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
  const mongo = await openProxy(proxies, ports.mongo);
  const redis = await openProxy(proxies, ports.redis);
  const nudges = await openProxy(proxies, grpcPort);
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
  const current = () => {
    const running = processes.at(-1);
    if (!running) throw new Error(`member ${place} was not started`);
    return running;
  };
  const publicUrl = `http://127.0.0.1:${port}`;
  return {
    ...{ place, publicUrl, mongo, redis, nudges, setClock },
    internalUrl: `http://127.0.0.1:${grpcPort}`,
    process: current,
    starvation: () =>
      processes.flatMap(({ stderr }) => stderr().split("\n")).filter((line) => starved.test(line)),
    async start(others = {}, ownCommand = command) {
      const exact = { ...settings, ...own, ...others };
      processes.push(await serveKeyrun(join(folder, "data"), exact, ownCommand));
    },
    async stop() {
      current().kill("SIGTERM");
      const { code, signal } = await current().exited;
      if (code !== 0) throw new Error(`member ${place} ended with ${code ?? signal}: ${current().stderr()}`);
    },
    async kill() {
      processes.at(-1)?.kill("SIGKILL");
      await processes.at(-1)?.exited;
    },
    pause: () => current().kill("SIGSTOP"),
    resume: () => current().kill("SIGCONT"),
    untilReadyz: (status) => until(async () => (await statusOf(`${publicUrl}/readyz`)) === status, 25),
  };
}

async function openProxy(proxies: Calls<ProxyApi>, target: number): Promise<FleetProxy> {
  const { place, port } = await proxies.open(target);
  return {
    port,
    freeze: () => proxies.freeze(place),
    freezeOn: (text) => proxies.freezeOn(place, text),
    delay: (ms) => proxies.delay(place, ms),
    cut: () => proxies.cut(place),
    mend: () => proxies.mend(place),
    retarget: (next) => proxies.retarget(place, next),
    opened: () => proxies.opened(place),
  };
}

async function startFleetRedis(): Promise<FleetRedis> {
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
