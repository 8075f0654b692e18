import { readFileSync } from "node:fs";
import { totalmem } from "node:os";
import { fileURLToPath } from "node:url";
import { getHeapStatistics } from "node:v8";
import type { AppParts } from "./app/open.ts";
import { type App, startApp } from "./app/start.ts";
import { startWords, stopWords } from "./app/start-words.ts";
import { systemClock } from "./base/clock.ts";
import { programFor, readVersion } from "./base/program.ts";
import { bounds } from "./bounds.ts";
import type { InstanceEvents } from "./fleet/alone.ts";
import { createLog, type Log } from "./log/log.ts";
import { createLogOutput, type LogOutput } from "./log/log-output.ts";
import { createRedaction } from "./log/redaction.ts";
import { StartRefused } from "./refusal/start-refused.ts";
import type { Config } from "./settings/config.ts";
import { writeHostAndPort } from "./settings/host.ts";
import { readSettings } from "./settings/read-settings.ts";
import { openStores } from "./store/open-stores.ts";
import type { ReserveState } from "./store/sqlite/disk-reserve.ts";
import { isSdkRegistered, traceOfLogLine } from "./traces/traces.ts";

/**
 * With npm a signal arrives twice: from the sender, who signals the whole process group, and from
 * npm. A second signal within this time counts as the same one.
 */
const sameSignalMs = 500;

/** `keyrun serve`: runs until a signal ends it, and returns the exit code. */
export async function serve(): Promise<number> {
  const settings = readSettings(process.env, (path) => readFileSync(path, "utf8"));
  if ("problems" in settings) return refuse(settings.problems);
  const config = settings.ok;
  const { logLevel: level, keyPrefix, serviceToken, mongodbUri, sharedLimit, oidc } = config;
  const secrets = [serviceToken, mongodbUri, sharedLimit?.redisUrl, oidc?.clientSecret].filter(
    (secret) => secret !== undefined,
  );
  const output = (await terminalOutput()) ?? createLogOutput({ clock: systemClock });
  process.on("exit", output.flush);
  const facts = isSdkRegistered() ? traceOfLogLine : undefined;
  const log = createLog({ level, keyPrefix, secrets, destination: output, facts });
  const ending = watchForEnd(log);
  const events = instanceEvents(log, ending.end);
  const command = programFor(config.dataDir, { cwd: process.cwd(), env: process.env });
  try {
    const app = await startApp(config, {
      clock: systemClock,
      log,
      version: readVersion(),
      nodeVersion: process.versions.node,
      runBytesMax: Math.min(bounds.runBytesMax, Math.floor(memoryBytes() / 4)),
      onSecret: (secret) => void secrets.push(secret),
      signal: ending.signal,
      openStores: () =>
        openStores(config, {
          clock: systemClock,
          events,
          signal: ending.signal,
          onReserve: reserveLog(log),
          onNoReplicaSet: () => log.warn(noReplicaSetWords),
        }),
      onRefused: (words) => {
        log.fatal({ words }, "the fleet took this instance out, and it may not join again: it stops");
        ending.end({ exitCode: 1, why: "may not join the fleet again" });
      },
      writeAccess: config.accessLog ? output.writeAccess : undefined,
      redact: createRedaction(keyPrefix, secrets),
      command,
      announce: (started) =>
        process.stdout.write(wordsFor(started, command, config.serviceToken !== undefined)),
      screenFolder: fileURLToPath(new URL("../web/dist", import.meta.url)),
    });
    const exitCode = await stop(app, await ending.promise, { config, log });
    // A socket, timer or look-up that is left, of a library for example, must not hold the process.
    process.exit(exitCode);
  } catch (error) {
    // A signal that arrives during the start is no failure.
    if (ending.signal.aborted) return (await ending.promise).exitCode;
    if (error instanceof StartRefused) return refuse([error.message]);
    throw error;
  }
}

/** The memory that this process may use: of the machine, of its container, and of its heap. */
function memoryBytes(): number {
  // A container without a limit has one that no machine reaches.
  const constrained = process.constrainedMemory() || Number.POSITIVE_INFINITY;
  return Math.min(totalmem(), constrained, getHeapStatistics().heap_size_limit);
}

function refuse(problems: readonly string[]): number {
  for (const problem of problems) process.stderr.write(`Keyrun can't start: ${problem}\n`);
  return 1;
}

function wordsFor(
  { publicAddress, internalAddress, teamId, screen }: Parameters<AppParts["announce"]>[0],
  command: string,
  isTokenSet: boolean,
) {
  return startWords({
    publicUrl: `http://${writeHostAndPort(publicAddress)}`,
    grpcAddress: writeHostAndPort(internalAddress),
    teamId,
    command,
    isTokenSet,
    screen,
    isOnTerminal: process.stdout.isTTY,
  });
}

interface Ending {
  readonly exitCode: number;
  readonly why: string;
}

interface EndWatch {
  readonly promise: Promise<Ending>;
  /** Aborted at the end, for operations that wait during the start. */
  readonly signal: AbortSignal;
  end(ending: Ending): void;
}

/** Resolves with the first signal or the first uncaught error. A second signal exits at once. */
function watchForEnd(log: Log): EndWatch {
  const { promise, resolve } = Promise.withResolvers<Ending>();
  const ended = new AbortController();
  const end = (ending: Ending) => {
    resolve(ending);
    ended.abort();
  };
  let firstMs: number | undefined;
  const onSignal = (signal: NodeJS.Signals) => {
    const nowMs = systemClock.monotonicMs();
    if (firstMs !== undefined && nowMs - firstMs > sameSignalMs) process.exit(1);
    firstMs ??= nowMs;
    end({ exitCode: 0, why: signal });
  };
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, onSignal);
  const onFault = (err: unknown) => {
    log.fatal({ err }, "a fault that nobody caught: Keyrun drains and exits");
    end({ exitCode: 1, why: "fault" });
  };
  process.on("uncaughtException", onFault);
  process.on("unhandledRejection", onFault);
  return { promise, end, signal: ended.signal };
}

const noReplicaSetWords =
  "this MongoDB is no replica set: what it has confirmed may be lost with the server, such as a revocation. One member is enough";

/** Logs for the operator what becomes of the lease of an instance that serves MongoDB alone. */
function instanceEvents(log: Log, end: (ending: Ending) => void): InstanceEvents {
  return {
    onWaiting: (waitMsMax) =>
      log.warn({ waitMsMax }, "another Keyrun serves this database: waiting for it to leave"),
    onRenewalFailed: (err) => log.warn({ err }, "the record of this instance could not be renewed"),
    onLost: () => {
      log.fatal("another Keyrun has taken this database over: this one stops");
      end({ exitCode: 1, why: "taken over" });
    },
  };
}

/** On a terminal, the log is for people. Undefined elsewhere: then the log is JSON lines. */
async function terminalOutput(): Promise<LogOutput | undefined> {
  // To read it has an effect that the other output needs: Node makes a pipe one that never blocks.
  const { stderr } = process;
  if (!stderr.isTTY) return undefined;
  // A terminal that was closed takes no line any more. Its SIGHUP ends Keyrun, which must not fail
  // over its own last words.
  stderr.on("error", () => {});
  const { createTerminalLog } = await import("./log/terminal-log.ts");
  const { write } = createTerminalLog((text) => stderr.write(text), { colour: stderr.hasColors() });
  return { write, writeAccess: write, flush: () => {} };
}

async function stop(
  app: App,
  { exitCode, why }: Ending,
  { config, log }: { config: Config; log: Log },
): Promise<number> {
  if (process.stderr.isTTY) process.stderr.write(stopWords(config, why));
  else log.info({ why }, "draining");
  await app.close();
  if (process.stderr.isTTY) process.stderr.write("Keyrun has stopped.\n");
  else log.info("stopped");
  return exitCode;
}

/** Logs for the operator what becomes of the room that is kept for revocations on a full disk. */
function reserveLog(log: Log): (state: ReserveState) => void {
  const bytes = bounds.storeReserveBytes;
  return (state) => {
    if (state === "whole") log.info("there is room on the disk: the reserve for revocations is whole");
    else if (state === "absent")
      log.warn({ bytes }, "the disk has no room for the reserve for revocations: make room");
    else
      log.warn(
        { bytes },
        "the disk is full: the reserve is used for revocations, and every other change is refused: make room",
      );
  };
}
