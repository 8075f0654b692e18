import { create, fromJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import type { Run as RunMessage } from "#gen/keyrun/v1/run_pb.ts";
import {
  type RunAppRequest,
  type RunAppResponse,
  RunAppResponseSchema,
  type StartRunRequest,
  type StreamAppRequest,
  type StreamAppResponse,
} from "#gen/keyrun/v1/run_service_pb.ts";
import type { AppRecord } from "../apps/app-store.ts";
import type { CheckKey } from "../auth/key-evidence.ts";
import type { Call } from "../auth/principal.ts";
import { readTraceContext } from "../http/trace-context.ts";
import { aboutApp, Refusal } from "../refusal/refusal.ts";
import { type AppStreamParts, appStream } from "./app-stream.ts";
import { idempotencyHeader, refuseIdempotencyKey } from "./kept/idempotency-key.ts";
import { type KeptRunService, readWait } from "./kept/kept-run-service.ts";
import {
  type FindRunnableApp,
  keyOf,
  type Run,
  type RunInput,
  type Runner,
  type RunOutput,
  readInput,
} from "./runner.ts";

/**
 * `keyrun.v1.RunService`: what happens to an admitted request that runs an app. It finds the app
 * that the key may run, and runs it whole, at most once for an Idempotency-Key, as a stream, or in
 * the background. It returns complete Protobuf messages.
 */
export interface RunMethods extends Pick<KeptRunService, "getRun" | "listRuns" | "cancelRun"> {
  /** The caller must be admitted already: its key is verified and its request counted. */
  runApp(request: RunAppRequest, call: Call): Promise<RunAppResponse>;
  /** Like `runApp`, but streams the output: `started` first, then its pieces. */
  streamApp(request: StreamAppRequest, call: Call): AsyncIterable<StreamAppResponse>;
  /** Starts a run in the background. The caller must be admitted as for `runApp`. */
  startRun(request: StartRunRequest, call: Call): Promise<{ readonly run: RunMessage }>;
  /** Whether runs can be started in the background. */
  readonly offersBackground: boolean;
}

export function createRunService(
  parts: AppStreamParts & {
    readonly findRunnableApp: FindRunnableApp;
    readonly run: Runner;
    /** Runs with an Idempotency-Key, and in the background. */
    readonly kept: KeptRunService;
    readonly newRunId: () => string;
    readonly checkKey: CheckKey;
  },
): RunMethods {
  const findApp = async (appId: string, call: Call): Promise<AppRecord> => {
    const app = await parts.findRunnableApp(keyOf(call), appId);
    if (call.http.notes) call.http.notes.appId = app.id;
    return app;
  };

  const begin = (app: AppRecord, input: RunInput, call: Call): Run => {
    const { teamId, keyId } = keyOf(call);
    const { requestId, reservation } = call.http;
    return {
      runId: parts.newRunId(),
      teamId,
      keyId,
      app,
      ...input,
      reservation,
      requestId,
      traceContext: readTraceContext(call.http),
      callerMsLeft: () => call.timeoutMs(),
      signal: call.signal,
    };
  };

  async function answer(app: AppRecord, input: RunInput, call: Call): Promise<RunAppResponse> {
    if (call.http.header(idempotencyHeader) !== undefined) {
      return messageOf(app, await parts.kept.runOnce({ app, ...input }, call));
    }
    const run = begin(app, input, call);
    return messageOf(app, { runId: run.runId, ...(await parts.run(run)) });
  }

  return {
    async runApp(request, call) {
      const app = await findApp(request.appId, call);
      return withApp(app, answer(app, readInput(app, request, call), call));
    },
    async *streamApp(request, call) {
      const app = await findApp(request.appId, call);
      refuseIdempotencyKey(call, "A stream can't be repeated.");
      const key = keyOf(call);
      const checkRight = async () => {
        await parts.checkKey(key.keyId);
        await parts.findRunnableApp(key, app.id);
      };
      yield* appStream(parts, begin(app, readInput(app, request, call), call), checkRight);
    },
    async startRun(request, call) {
      const waitMs = readWait(request.wait);
      const app = await findApp(request.appId, call);
      return {
        run: await withApp(app, parts.kept.start({ app, ...readInput(app, request, call), waitMs }, call)),
      };
    },
    offersBackground: parts.kept.isOffered,
    getRun: parts.kept.getRun,
    listRuns: parts.kept.listRuns,
    cancelRun: parts.kept.cancelRun,
  };
}

function messageOf({ id }: AppRecord, { runId, text, output }: RunOutput & { runId: string }) {
  const message = create(RunAppResponseSchema, { runId, appId: id, text });
  if (output !== undefined) message.output = fromJson(ValueSchema, output);
  return message;
}

/** Adds to a refusal which app it is about. */
async function withApp<T>({ id }: AppRecord, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (thrown) {
    throw thrown instanceof Refusal ? aboutApp(thrown, id) : thrown;
  }
}
