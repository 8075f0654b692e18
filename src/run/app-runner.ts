import type { BackendRecord } from "../apps/app-store.ts";
import { type Clock, systemTimers, type Timers } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import { type Refusal, unavailable } from "../refusal/refusal.ts";
import { appFailed, endedBy } from "./backend-runner.ts";
import { runEcho } from "./echo-runner.ts";
import { createGrpcRunner } from "./grpc-runner.ts";
import { createHostLookup } from "./host-lookup.ts";
import { createHttpRunner } from "./http-runner.ts";
import { createNameFiles, type NameFilePaths } from "./name-files.ts";
import { createResolveHost } from "./resolve-host.ts";
import { createRunningRuns, type RunningLimits } from "./run-limits.ts";
import { createRunSlots } from "./run-slots.ts";
import type { Run, Runner, StreamRunner } from "./runner.ts";
import { createStreamRunner } from "./stream-runner.ts";

export interface AppRunner {
  readonly run: Runner;
  readonly stream: StreamRunner;
  /**
   * Ends every run under way with UNAVAILABLE, waits for all of them, and closes the connections to
   * backends. Later runs are refused with UNAVAILABLE.
   */
  close(): Promise<void>;
}

/**
 * Runs apps on every kind of backend: at most `appRunsMax` runs of one app at once, fewer of one
 * team if others share the app, each with an output of at most `outputBytesMax` bytes of UTF-8. A
 * run keeps its slot until its exchange with the backend is over.
 */
export function createAppRunner(options: {
  clock: Clock;
  timers?: Timers;
  appRunsMax: number;
  outputBytesMax: number;
  /** The longest time without a message of an app that streams; tests have less of it. */
  silenceMsMax?: number | undefined;
  /** Where the system says how names become addresses; tests give files of their own. */
  nameFiles?: NameFilePaths | undefined;
}): AppRunner {
  const { clock, timers = systemTimers, appRunsMax, outputBytesMax } = options;
  const resolve = createResolveHost(createNameFiles(options.nameFiles));
  const hosts = createHostLookup({ clock, timers, resolve });
  const http = createHttpRunner({ clock, timers, appRunsMax, outputBytesMax, hosts });
  const grpc = createGrpcRunner({ clock, timers, outputBytesMax, hosts });
  const streams = createStreamRunner({ clock, http, grpc, silenceMsMax: options.silenceMsMax });
  const slots = createRunSlots({ clock, appRunsMax, runsMax: bounds.runsMax });
  const running = createRunningRuns(clock, timers);
  let closed = false;

  function send(run: Run, backend: RemoteBackend, limits: RunningLimits): Promise<string> {
    return backend.kind === "http" ? http.run(run, backend, limits) : grpc.run(run, backend, limits);
  }

  async function runRemotely(run: Run, backend: RemoteBackend): Promise<string> {
    const releaseSlot = slots.acquire(run.app, run.teamId);
    const limits = running.start(run, run.app.timeoutMs);
    try {
      if (limits.refusal) throw limits.refusal;
      const text = await send(run, backend, limits);
      const fault = faultOf(text, outputBytesMax);
      if (fault) throw fault;
      return text;
    } catch (thrown) {
      throw limits.refusal ? endedBy(limits.refusal, thrown) : thrown;
    } finally {
      limits.stop();
      releaseSlot();
    }
  }

  function start(run: Run): string | Promise<string> {
    if (closed) return Promise.reject(unavailable());
    const { backend } = run.app;
    if (backend.kind !== "echo") return runRemotely(run, backend);
    const text = runEcho(run);
    const fault = faultOf(text, outputBytesMax);
    return fault ? Promise.reject(fault) : text;
  }

  return {
    run: start,
    stream: streams.stream,
    async close() {
      closed = true;
      await Promise.all([running.end(unavailable({ mayHaveRun: true })), streams.close()]);
      http.close();
      grpc.close();
      hosts.close();
    },
  };
}

type RemoteBackend = Exclude<BackendRecord, { kind: "echo" }>;

// The runners bound what they read, with its framing. This bounds the output itself.
function faultOf(text: string, outputBytesMax: number): Refusal | undefined {
  if (Buffer.byteLength(text) > outputBytesMax) {
    return appFailed(`The output has more than ${outputBytesMax} bytes.`);
  }
  // JSON can hold half of a surrogate pair; UTF-8 and Protobuf can't.
  return text.isWellFormed() ? undefined : appFailed("The output is not Unicode: it holds a lone surrogate.");
}
