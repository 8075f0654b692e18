import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { connectivityState, logVerbosity, Metadata, setLogVerbosity, status } from "@grpc/grpc-js";
import {
  AppBackendService,
  type RunRequest,
  RunRequestSchema,
  type RunResponse,
  RunResponseSchema,
} from "#gen/keyrun/v1/app_backend_service_pb.ts";
import { bounds } from "../bounds.ts";
import type { Clock } from "../clock.ts";
import { fail, Refusal } from "../refusal/refusal.ts";
import {
  appFailed,
  appUnreachable,
  type BackendRunner,
  nameOfFailure,
  type RunLimits,
} from "./backend-runner.ts";
import { type ChannelLease, createGrpcChannels } from "./grpc-channels.ts";
import type { HostLookup } from "./host-lookup.ts";
import type { Run } from "./runner.ts";

/**
 * Runs apps on a gRPC server that implements `keyrun.v1.AppBackendService`: one call, with the rest
 * of the timeout as its deadline and `x-request-id` in its metadata. A call that got no connection,
 * or none within `backendConnectMsMax`, becomes APP_UNREACHABLE; if the server is down, that is at
 * once. DEADLINE_EXCEEDED becomes APP_TIMEOUT. Every other status but OK becomes APP_FAILED, and so
 * does a response of more than `outputBytesMax` bytes.
 */
export function createGrpcRunner(options: {
  clock: Clock;
  outputBytesMax: number;
  hosts: HostLookup;
}): BackendRunner<"grpc"> {
  const { clock, outputBytesMax, hosts } = options;
  const idleChannelsMax = bounds.backendIdleChannelsMax;
  const channels = createGrpcChannels({ outputBytesMax, hosts, idleChannelsMax });
  // The library would write text to stderr, where only our JSON log lines may go.
  setLogVerbosity(logVerbosity.NONE);

  return {
    async run(run, backend, limits) {
      const channel = channels.acquire(backend);
      try {
        const deadline = clock.unixMs() + (limits.deadlineMs - clock.monotonicMs());
        const response = await callOnce(channel, run, { limits, deadline });
        return response.text;
      } catch (thrown) {
        // The peer may be gone without closing the connection. Later runs on it would all time out.
        if (isTimeout(thrown) || isTimeout(limits.refusal)) channel.retire();
        throw thrown;
      } finally {
        channel.release();
      }
    },
    close: () => channels.close(),
  };
}

const { run: method } = AppBackendService.method;
const path = `/${AppBackendService.typeName}/${method.name}`;

/**
 * Makes one call. Rejects with a refusal. Settles when the call is over; the end of the limits
 * cancels it.
 */
function callOnce(
  channel: ChannelLease,
  run: Run,
  { limits, deadline }: { limits: RunLimits; deadline: number },
): Promise<RunResponse> {
  const { promise, resolve, reject } = Promise.withResolvers<RunResponse>();
  const metadata = new Metadata();
  metadata.set("x-request-id", run.requestId);
  const call = channel.client.makeUnaryRequest<RunRequest, RunResponse>(
    path,
    (request) => Buffer.from(toBinary(RunRequestSchema, request)),
    (bytes) => fromBinary(RunResponseSchema, bytes),
    create(RunRequestSchema, requestOf(run)),
    metadata,
    { deadline },
    (error, response) => {
      const isLate = noConnection.stop();
      if (error === null && response !== undefined) return resolve(response);
      // Before a call has a stream on a connection, its peer is the channel's target.
      const isSent = call.getPeer() !== channel.client.getChannel().getTarget();
      if (isSent) return reject(refusalOf(error));
      // The connection may never be made. The next run tries a new one.
      if (isLate || isPastDeadline(error)) channel.retire();
      const late = `No connection within ${bounds.backendConnectMsMax} ms.`;
      reject(appUnreachable(isLate ? late : nameOfFailure(error)));
    },
  );
  function cancel() {
    call.cancel();
  }
  const noConnection = callIfNotConnected(channel, cancel);
  limits.whenOver(cancel);
  return promise;
}

/**
 * Calls `cancel` if the channel makes no connection within `backendConnectMsMax`, so that the call
 * can't have been sent. `stop` ends that, and returns whether `cancel` was called.
 */
function callIfNotConnected({ client, connections }: ChannelLease, cancel: () => void) {
  if (client.getChannel().getConnectivityState(false) === connectivityState.READY) return connected;
  const connectionsBefore = connections();
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = connections() === connectionsBefore;
    if (isLate) cancel();
  }, bounds.backendConnectMsMax);
  return {
    stop() {
      clearTimeout(timer);
      return isLate;
    },
  };
}

const connected = { stop: () => false };

function requestOf(run: Run): MessageInitShape<typeof RunRequestSchema> {
  return { runId: run.runId, teamId: run.teamId, appId: run.app.id, text: run.text };
}

function refusalOf(thrown: unknown): Refusal {
  if (isPastDeadline(thrown)) {
    return fail("APP_TIMEOUT", { cause: new Error("The call's deadline passed."), mayHaveRun: true });
  }
  return appFailed(`The call failed: ${nameOfFailure(thrown)}`);
}

function isPastDeadline(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === status.DEADLINE_EXCEEDED;
}

function isTimeout(reason: unknown): boolean {
  return reason instanceof Refusal && reason.reason === "APP_TIMEOUT";
}
