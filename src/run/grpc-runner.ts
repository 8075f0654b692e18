import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  type Client,
  logVerbosity,
  Metadata,
  type ServiceError,
  setLogVerbosity,
  status,
} from "@grpc/grpc-js";
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
import { appFailed, type BackendRunner, nameOfFailure } from "./backend-runner.ts";
import { createGrpcChannels } from "./grpc-channels.ts";
import type { Run } from "./runner.ts";

/**
 * Runs apps on a gRPC server that implements `keyrun.v1.AppBackendService`: one call, with the rest
 * of the timeout as its deadline and `x-request-id` in its metadata. DEADLINE_EXCEEDED becomes
 * APP_TIMEOUT. Every other status but OK becomes APP_FAILED, and so does a response of more than
 * `outputBytesMax` bytes. If the server is down, the call fails at once.
 */
export function createGrpcRunner(options: { clock: Clock; outputBytesMax: number }): BackendRunner<"grpc"> {
  const { clock, outputBytesMax } = options;
  const channels = createGrpcChannels({ outputBytesMax, idleChannelsMax: bounds.backendIdleChannelsMax });
  // The library would write text to stderr, where only our JSON log lines may go.
  setLogVerbosity(logVerbosity.NONE);

  return {
    async run(run, backend, { signal, deadlineMs }) {
      const channel = channels.acquire(backend);
      try {
        const deadline = clock.unixMs() + (deadlineMs - clock.monotonicMs());
        const response = await callOnce(channel.client, run, { signal, deadline });
        return response.text;
      } catch (thrown) {
        const refusal = refusalOf(thrown);
        // The peer may be gone without closing the connection. Later runs on it would all time out.
        if (isTimeout(refusal) || isTimeout(signal.reason)) channel.retire();
        throw refusal;
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
 * Makes one call. Rejects with the library's `ServiceError`. Settles when the call is over; an
 * abort of the signal cancels it.
 */
function callOnce(
  client: Client,
  run: Run,
  limits: { signal: AbortSignal; deadline: number },
): Promise<RunResponse> {
  const { promise, resolve, reject } = Promise.withResolvers<RunResponse>();
  const metadata = new Metadata();
  metadata.set("x-request-id", run.requestId);
  const call = client.makeUnaryRequest<RunRequest, RunResponse>(
    path,
    (request) => Buffer.from(toBinary(RunRequestSchema, request)),
    (bytes) => fromBinary(RunResponseSchema, bytes),
    create(RunRequestSchema, requestOf(run)),
    metadata,
    { deadline: limits.deadline },
    (error, response) => {
      limits.signal.removeEventListener("abort", cancel);
      if (error === null && response !== undefined) resolve(response);
      else reject(error);
    },
  );
  function cancel() {
    call.cancel();
  }
  limits.signal.addEventListener("abort", cancel);
  return promise;
}

function requestOf(run: Run): MessageInitShape<typeof RunRequestSchema> {
  return { runId: run.runId, teamId: run.teamId, appId: run.app.id, text: run.text };
}

function refusalOf(thrown: unknown): Refusal {
  if (isServiceError(thrown) && thrown.code === status.DEADLINE_EXCEEDED) {
    return fail("APP_TIMEOUT", { cause: new Error("The call's deadline passed."), mayHaveRun: true });
  }
  return appFailed(`The call failed: ${nameOfFailure(thrown)}`);
}

function isServiceError(thrown: unknown): thrown is ServiceError {
  return thrown instanceof Error && "code" in thrown && "details" in thrown;
}

function isTimeout(reason: unknown): boolean {
  return reason instanceof Refusal && reason.reason === "APP_TIMEOUT";
}
