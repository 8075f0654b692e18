import type { BackendRecord } from "../apps/app-store.ts";
import { type Clock, systemTimers, type Timers } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import type { Redact } from "../log/redaction.ts";
import { unavailable } from "../refusal/refusal.ts";
import { createGrpcRunner } from "./grpc-runner.ts";
import { createHostLookup } from "./host-lookup.ts";
import { createHttpRunner } from "./http-runner.ts";
import { reachBackend } from "./reach-app.ts";
import { createResolveHost, type NameFilePaths } from "./resolve-host.ts";
import { runBounds } from "./run-bounds.ts";
import { RunningRuns } from "./run-limits.ts";
import { createRunSlots } from "./run-slots.ts";
import {
  appFailed,
  type BackendRunner,
  type CallTrace,
  endedBy,
  guardIsNotRun,
  type RemoteBackend,
  type Run,
  type Runner,
  type RunOutput,
  type StreamPiece,
  type StreamRunner,
} from "./runner.ts";
import { RunningStreams } from "./stream/running-streams.ts";

/**
 * Runs apps on every kind of backend: at most `appRunsMax` runs of one app at once, fewer of one
 * team if others share the app, each with an output of at most `outputBytesMax` bytes of UTF-8. A
 * run keeps its slot until its exchange with the backend is over. A stream and a run in the
 * background take none here: the one who asks for them bounds them.
 */
export interface AppRunner {
  readonly run: Runner;
  readonly stream: StreamRunner;
  /** As `reachBackend`; at once for the built-in app. */
  reach(backend: BackendRecord): Promise<void>;
  /** What a trace says of a call of this backend; undefined for one that is no server. */
  traceOf(backend: BackendRecord, isStreamed: boolean): CallTrace | undefined;
  /**
   * Ends every run and stream under way with UNAVAILABLE, waits for all of them, and closes the
   * connections to backends. Later ones are refused with UNAVAILABLE.
   */
  close(): Promise<void>;
}

export function createAppRunner({
  clock,
  timers = systemTimers,
  appRunsMax,
  backgroundRunsMax,
  outputBytesMax,
  silenceMsMax = runBounds.appStreamSilenceMsMax,
  nameFiles,
  redact,
}: {
  clock: Clock;
  timers?: Timers;
  appRunsMax: number;
  /** Runs of one app in the background, which the caller bounds. */
  backgroundRunsMax: number;
  outputBytesMax: number;
  /** Cuts what may be a key out of an app's words for its caller. */
  redact: Redact;
  /** The longest time without a message of an app that streams; tests have less of it. */
  silenceMsMax?: number | undefined;
  /** Where the system says how names become addresses; tests give files of their own. */
  nameFiles?: NameFilePaths | undefined;
}): AppRunner {
  const resolve = createResolveHost(nameFiles);
  const hosts = createHostLookup({ clock, timers, resolve });
  const backends: Backends = {
    http: createHttpRunner(clock, hosts, { appRunsMax, backgroundRunsMax, outputBytesMax, redact }),
    grpc: createGrpcRunner(clock, timers, hosts, { outputBytesMax, redact }),
  };
  const slots = createRunSlots({ clock, appRunsMax, runsMax: bounds.runsMax });
  const runs = new RunningRuns(clock, timers);
  const streams = new RunningStreams(clock, silenceMsMax);
  let closed = false;

  /** Each row of the table takes the backends of its own kind. */
  const runnerOf = ({ kind }: RemoteBackend): BackendRunner => backends[kind];

  async function runRemotely(run: Run, backend: RemoteBackend): Promise<RunOutput> {
    const { app, teamId, isBackground = false } = run;
    const releaseSlot = isBackground ? () => {} : slots.acquire(app, teamId);
    const limits = runs.start(run, isBackground ? app.backgroundTimeoutMs : app.timeoutMs);
    try {
      limits.signal.throwIfAborted();
      const output = await runnerOf(backend).run(run, backend, limits);
      checkOutput(output, outputBytesMax);
      return output;
    } catch (thrown) {
      throw limits.signal.aborted ? endedBy(limits.signal.reason, thrown) : thrown;
    } finally {
      limits.stop();
      releaseSlot();
    }
  }

  return {
    async run(run) {
      if (closed) throw unavailable();
      const backend = runnable(run.app.backend);
      if (backend.kind !== "echo") return runRemotely(run, backend);
      // The output of the built-in app is the input. It takes no time, so it can't be cancelled.
      const output = { text: run.text, output: run.input };
      checkOutput(output, outputBytesMax);
      return output;
    },
    async *stream(run) {
      if (closed) throw unavailable();
      const backend = runnable(run.app.backend);
      yield* streams.stream(run, (limits) =>
        backend.kind === "echo" ? echoOf(run) : runnerOf(backend).stream(run, backend, limits),
      );
    },
    async reach(given) {
      const backend = runnable(given);
      if (backend.kind !== "echo") await reachBackend(backend, hosts);
    },
    traceOf: (backend, isStreamed) =>
      backend.kind === "echo" || backend.kind === "guard"
        ? undefined
        : runnerOf(backend).traceOf(backend, isStreamed),
    async close() {
      closed = true;
      const refusal = unavailable({ mayHaveRun: true });
      streams.end(refusal);
      await runs.end(refusal);
      for (const backend of Object.values(backends)) backend.close();
      hosts.close();
    },
  };
}

function runnable(backend: BackendRecord): Exclude<BackendRecord, { kind: "guard" }> {
  if (backend.kind === "guard") throw guardIsNotRun();
  return backend;
}

type Backends = {
  readonly [Kind in RemoteBackend["kind"]]: BackendRunner<Extract<RemoteBackend, { kind: Kind }>>;
};

// The runners bound what they read, with its framing. This bounds the output itself.
function checkOutput({ text = "", output }: RunOutput, outputBytesMax: number): void {
  const json = output === undefined ? "" : JSON.stringify(output);
  if (Buffer.byteLength(text) + Buffer.byteLength(json) > outputBytesMax) {
    throw appFailed(`The output has more than ${outputBytesMax} bytes.`);
  }
  // JSON can hold half of a surrogate pair; UTF-8 and Protobuf can't.
  if (!text.isWellFormed()) throw appFailed("The output is not Unicode: it holds a lone surrogate.");
}

/** The output of the built-in app as a stream. */
async function* echoOf({ text, input }: Run): AsyncGenerator<StreamPiece> {
  if (text !== undefined) yield* wordsOf(text);
  if (input !== undefined) yield { output: input };
}

/**
 * The text of the built-in app: that of the input, word by word, each with the whitespace after it.
 * The first word comes alone, and the others in pieces.
 */
async function* wordsOf(text: string): AsyncGenerator<string> {
  let piece = "";
  let isFirst = true;
  for (const [word] of text.matchAll(/\S*\s+|\S+/g)) {
    piece += word;
    if (!isFirst && piece.length < runBounds.echoPieceCharacters) continue;
    yield piece;
    piece = "";
    isFirst = false;
  }
  yield piece;
}
