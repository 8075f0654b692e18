import type { BackendRecord } from "../apps/app-store.ts";
import type { Clock } from "../base/clock.ts";
import { overloaded, textBytes } from "../limit/byte-budget.ts";
import { unavailable } from "../refusal/refusal.ts";
import type { BackendRunner } from "./backend-runner.ts";
import { runBounds } from "./run-bounds.ts";
import { type Run, type StreamRunner, takeText } from "./runner.ts";
import { EchoPieces } from "./stream/echo-pieces.ts";
import type { PieceSource } from "./stream/piece-source.ts";
import { RunningStreams } from "./stream/running-streams.ts";

/** Streams apps on every kind of backend. It takes no slot. */
export interface AppStreamRunner {
  readonly stream: StreamRunner;
  /**
   * Ends every stream under way with UNAVAILABLE, and waits for all of their exchanges. Later ones
   * are refused with UNAVAILABLE.
   */
  close(): Promise<void>;
}

export function createStreamRunner(parts: {
  clock: Clock;
  http: BackendRunner<"http">;
  grpc: BackendRunner<"grpc">;
  /** The longest time without a message of the app. */
  silenceMsMax?: number | undefined;
}): AppStreamRunner {
  const { clock, http, grpc, silenceMsMax = runBounds.appStreamSilenceMsMax } = parts;
  const streams = new RunningStreams(clock, { silenceMsMax, bytesMax: runBounds.appStreamBytesMax });
  let closed = false;

  function begin(run: Run, backend: BackendRecord, deadlineMs: number): PieceSource {
    switch (backend.kind) {
      case "echo":
        return echoOf(run);
      case "http":
        return http.stream(run, backend, deadlineMs);
      case "grpc":
        return grpc.stream(run, backend, deadlineMs);
    }
  }

  return {
    async stream(run) {
      if (closed) throw unavailable();
      return streams.open(run, (deadlineMs) => begin(run, run.app.backend, deadlineMs));
    },
    async close() {
      closed = true;
      await streams.end(unavailable({ mayHaveRun: true }));
    },
  };
}

function echoOf(run: Run): PieceSource {
  const text = takeText(run);
  if (!run.held.take(textBytes(text))) throw overloaded();
  return new EchoPieces(text);
}
