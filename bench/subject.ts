import { type ChildProcess, execFileSync, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { cpuUsOf, processTree, residentMbOf } from "./processes.ts";

/** A server under test, in a process of its own: the load's processor time does not count. */
export interface Subject {
  readonly name: string;
  readonly port: number;
  /** The listener for internal services; `port` if the server has one listener alone. */
  readonly internalPort: number;
  /** The API keys that it accepts; empty if it needs none. */
  readonly apiKeys: readonly string[];
  /** What internal services authenticate with; empty if the server does not ask. */
  readonly serviceToken: string;
  /** Microseconds of processor time, user and system, that its processes have used so far. */
  cpuUs(): number;
  /** The resident memory of its processes, in MB. */
  residentMb(): number;
  stop(): Promise<void>;
}

/** The message of a subject's process to its parent once it listens. */
export interface ReadyMessage {
  readonly port: number;
  readonly internalPort?: number;
  readonly apiKeys?: readonly string[];
  readonly serviceToken?: string;
  /** The process that serves, if it is not the one that sends this. */
  readonly pid?: number | undefined;
  /** Others whose costs count. */
  readonly morePids?: readonly number[];
}

/** The message of a process that can't serve here, in words. */
export interface MissingMessage {
  readonly missing: string;
}

/** A server that could not be started because something is not installed. */
export interface Missing extends MissingMessage {
  readonly name: string;
  stop(): Promise<void>;
}

/**
 * Starts `bench/subjects/<file>.ts`. `app` is where its runs go: a URL or `host:port` (gRPC).
 * `node` is another Node to run it on.
 */
export async function startSubject(file: string, app = "", node?: string): Promise<Subject | Missing> {
  const { child, ready } = await start(`./subjects/${file}.ts`, app, node);
  const name = node === undefined ? file : `${file}, Node ${versionOf(node)}`;
  if ("missing" in ready) return { name, missing: ready.missing, stop: () => stop(child) };
  const pid = ready.pid ?? child.pid ?? 0;
  // The workers of nginx are there before it listens.
  const pids = [pid, ...(ready.morePids ?? [])].flatMap(processTree);
  return {
    name,
    port: ready.port,
    internalPort: ready.internalPort ?? ready.port,
    apiKeys: ready.apiKeys ?? [],
    serviceToken: ready.serviceToken ?? "",
    cpuUs: () => cpuUsOf(pids),
    residentMb: () => residentMbOf(pids),
    stop: () => stop(child),
  };
}

/** An app that gateways pass runs on to. */
export interface App {
  /** Where it is: a URL, or `host:port` for gRPC. */
  readonly place: string;
  stop(): Promise<void>;
}

/** The message of an app's process to its parent once it listens. */
export interface AppMessage {
  readonly place: string;
}

/** Starts `bench/apps/<name>.ts`. */
export async function startApp(name: "http" | "grpc"): Promise<App> {
  const { child, ready } = await start<AppMessage>(`./apps/${name}.ts`, "");
  return { place: ready.place, stop: () => stop(child) };
}

function versionOf(node: string): string {
  return execFileSync(node, ["--version"], { encoding: "utf8" }).trim().slice(1);
}

async function start<Ready = ReadyMessage | MissingMessage>(
  path: string,
  app: string,
  execPath = process.execPath,
) {
  const child = fork(fileURLToPath(new URL(path, import.meta.url)), [app], {
    execPath,
    stdio: ["ignore", "ignore", "inherit", "ipc"],
    execArgv: [],
  });
  const over = new AbortController();
  const { signal } = over;
  const exited = once(child, "exit", { signal }).then(([code]) => {
    throw new Error(`${path} exited with ${code}`);
  });
  try {
    const [ready]: Ready[] = await Promise.race([once(child, "message", { signal }), exited]);
    if (ready === undefined) throw new Error(`${path} sent nothing`);
    return { child, ready };
  } finally {
    // Removes the listener for the other event.
    exited.catch(() => {});
    over.abort();
  }
}

async function stop(child: ChildProcess): Promise<void> {
  if (!child.connected) return;
  const exited = once(child, "exit");
  child.disconnect();
  await exited;
}

/** Where the gateway passes runs on to: the argument that `startSubject` gave its process. */
export const appPlace = process.argv[2] ?? "";

/**
 * Tells the parent that this process listens, or why it can't. When the parent wants no more, or is
 * gone, it stops what it started, and ends.
 */
export function announce(
  ready: ReadyMessage | MissingMessage | AppMessage,
  stop: () => Promise<void> = async () => {},
): void {
  process.on("disconnect", () => stop().finally(() => process.exit()));
  process.send?.(ready);
}
