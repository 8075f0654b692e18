import { logVerbosity, setLogVerbosity } from "@grpc/grpc-js";
import type { Clock, Timers } from "../base/clock.ts";
import type { BackendRunner } from "./backend-runner.ts";
import { createGrpcChannels } from "./grpc-channels.ts";
import { GrpcRequest } from "./grpc-messages.ts";
import { GrpcText } from "./grpc-text.ts";
import type { HostLookup } from "./host-lookup.ts";
import { runBounds } from "./run-bounds.ts";
import { GrpcPieces } from "./stream/grpc-pieces.ts";

/**
 * Runs apps on a gRPC server that implements `keyrun.v1.AppBackendService`: one call, with the rest
 * of the timeout as its deadline, and with `x-request-id` and the trace context in its metadata. A
 * call that got no connection, or none within `backendConnectMsMax`, becomes APP_UNREACHABLE; if
 * the server is down, that is at once. DEADLINE_EXCEEDED becomes APP_TIMEOUT. Every other status
 * but OK becomes APP_FAILED, and so does a message of more than `outputBytesMax` bytes. A server
 * that has only one of the two methods is called twice: the other method was UNIMPLEMENTED, so
 * nothing had run.
 */
export function createGrpcRunner(options: {
  clock: Clock;
  timers: Timers;
  outputBytesMax: number;
  hosts: HostLookup;
}): BackendRunner<"grpc"> {
  const { clock, timers, outputBytesMax, hosts } = options;
  const idleChannelsMax = runBounds.backendIdleChannelsMax;
  const channels = createGrpcChannels({ outputBytesMax, hosts, idleChannelsMax });
  // The library would write text to stderr, where only our JSON log lines may go.
  setLogVerbosity(logVerbosity.NONE);
  const timesUntil = (deadlineMs: number) => ({ msLeft: () => deadlineMs - clock.monotonicMs(), timers });

  return {
    run(run, backend, limits) {
      const times = timesUntil(limits.deadlineMs);
      const request = new GrpcRequest(run);
      const text = new GrpcText(channels.acquire(backend), request, times, outputBytesMax);
      limits.whenOver((refusal) => text.cancel(refusal));
      return text.output;
    },
    stream(run, backend, deadlineMs) {
      const methods = ["streamRun", "run"] as const;
      const request = new GrpcRequest(run);
      return new GrpcPieces(channels.acquire(backend), request, { ...timesUntil(deadlineMs), methods });
    },
    close: () => channels.close(),
  };
}
