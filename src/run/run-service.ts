import { create } from "@bufbuild/protobuf";
import { type Run as RunMessage, RunSchema, RunState } from "#gen/keyrun/v1/run_pb.ts";
import {
  type RunAppRequest,
  type RunAppResponse,
  RunAppResponseSchema,
  type StartRunRequest,
  type StartRunResponse,
  StartRunResponseSchema,
  type StreamAppRequest,
  type StreamAppResponse,
} from "#gen/keyrun/v1/run_service_pb.ts";
import type { AppRecord } from "../apps/app-store.ts";
import type { CheckKey } from "../auth/key-evidence.ts";
import type { Call } from "../auth/principal.ts";
import { readTraceContext, type TraceContext } from "../http/trace-context.ts";
import { type ByteBudget, type HeldBytes, overloaded, textBytes } from "../limit/byte-budget.ts";
import { aboutApp, Refusal } from "../refusal/refusal.ts";
import { AppStream, type AppStreamParts, type StreamOrder } from "./app-stream.ts";
import { type BackgroundService, readWait } from "./background/background-service.ts";
import {
  type IdempotentOrder,
  type IdempotentRuns,
  idempotencyHeader,
  refuseIdempotencyKey,
  replayedHeader,
} from "./idempotency/idempotent-runs.ts";
import { type FindRunnableApp, keyOf, type Run, type Runner, takeTextOf } from "./runner.ts";

/**
 * `keyrun.v1.RunService`: what happens to an admitted request that runs an app. It finds the app
 * that the key may run, and runs it whole, at most once for an Idempotency-Key, as a stream, or in
 * the background. It returns complete Protobuf messages.
 */
export interface RunMethods extends Pick<BackgroundService, "getRun" | "listRuns" | "cancelRun"> {
  /** The caller must be admitted already: its key is verified and its request counted. */
  runApp(request: RunAppRequest, call: Call): Promise<RunAppResponse>;
  /** Like `runApp`, for a handler that has found the app already. */
  runFound(app: AppRecord, request: RunAppRequest, call: Call): Promise<RunAppResponse>;
  /** Like `runApp`, but streams the output: `started` first, then its pieces. */
  streamApp(request: StreamAppRequest, call: Call): AsyncIterable<StreamAppResponse>;
  /** Like `streamApp`, for a handler that has found the app already. */
  streamFound(app: AppRecord, request: StreamAppRequest, call: Call): AsyncIterable<StreamAppResponse>;
  /** Starts a run in the background. The caller must be admitted as for `runApp`. */
  startRun(request: StartRunRequest, call: Call): Promise<StartRunResponse>;
  /** Like `startRun`, for a handler that has found the app already. */
  startFound(app: AppRecord, request: StartedRequest, call: Call): Promise<RunMessage>;
  /** Whether runs can be started in the background now. */
  offersBackground(): boolean;
}

/** What is run, and how long to wait for its end. */
type StartedRequest = Pick<RunAppRequest, "text"> & { readonly waitMs: number };

export function createRunService(
  parts: AppStreamParts & {
    readonly findRunnableApp: FindRunnableApp;
    readonly run: Runner;
    /** Runs apps for requests with an Idempotency-Key. */
    readonly idempotent: Pick<IdempotentRuns, "run">;
    readonly background: BackgroundService;
    readonly newRunId: () => string;
    readonly checkKey: CheckKey;
    readonly bytes: ByteBudget;
  },
): RunMethods {
  const begin = (app: AppRecord, text: string, call: Call): StartedRun =>
    new StartedRun(call, { runId: parts.newRunId(), app, text, bytes: parts.bytes });

  const runFound: RunMethods["runFound"] = async (app, request, call) => {
    noteApp(call, app);
    const text = takeTextOf(request);
    const key = call.header(idempotencyHeader);
    if (key !== undefined) {
      const { teamId, keyId } = keyOf(call);
      return answerOnce({ teamId, keyId, app, text, key }, call);
    }
    const run = begin(app, text, call);
    try {
      const output = await parts.run(run);
      return create(RunAppResponseSchema, { runId: run.runId, appId: app.id, text: output });
    } catch (thrown) {
      throw thrown instanceof Refusal ? aboutApp(thrown, app.id) : thrown;
    } finally {
      run.release();
    }
  };

  async function answerOnce(order: IdempotentOrder, call: Call): Promise<RunAppResponse> {
    try {
      const { runId, text, isReplayed } = await parts.idempotent.run(order, call);
      if (isReplayed) call.responseHeaders.set(replayedHeader, "true");
      return create(RunAppResponseSchema, { runId, appId: order.app.id, text });
    } catch (thrown) {
      throw thrown instanceof Refusal ? aboutApp(thrown, order.app.id) : thrown;
    }
  }

  const startFound: RunMethods["startFound"] = async (app, request, call) => {
    noteApp(call, app);
    const order = { app, text: takeTextOf(request), waitMs: request.waitMs };
    try {
      const run = await parts.background.start(order, call);
      if (run !== undefined) return run;
    } catch (thrown) {
      throw thrown instanceof Refusal ? aboutApp(thrown, app.id) : thrown;
    }
    // Its Idempotency-Key stands for a run that somebody waits for, or has waited for.
    const { teamId, keyId } = keyOf(call);
    const key = call.header(idempotencyHeader) ?? "";
    const answer = await answerOnce({ teamId, keyId, app, text: order.text, key }, call);
    return create(RunSchema, { ...answerFields(answer), state: RunState.SUCCEEDED });
  };

  const order = (app: AppRecord, request: StreamAppRequest, call: Call): StreamOrder => {
    noteApp(call, app);
    refuseIdempotencyKey(call, "A stream can't be repeated.");
    const key = keyOf(call);
    const checkApp = () => {
      const found = parts.findRunnableApp(key, app.id);
      return found instanceof Promise ? found.then(() => {}) : undefined;
    };
    const checkRight = () => {
      const checked = parts.checkKey(key.keyId);
      return checked instanceof Promise ? checked.then(checkApp) : checkApp();
    };
    return { run: begin(app, takeTextOf(request), call), checkRight };
  };

  /** Finds the app, and counts the text that waits with it. */
  async function findFor(
    { appId, text = "" }: Pick<RunAppRequest, "appId" | "text">,
    call: Call,
  ): Promise<AppRecord> {
    const app = parts.findRunnableApp(keyOf(call), appId);
    if (!(app instanceof Promise)) return app;
    const held = parts.bytes.open(keyOf(call).teamId);
    try {
      if (!held.take(textBytes(text))) throw overloaded();
      return await app;
    } finally {
      held.release();
    }
  }

  return {
    runApp: async (request, call) => runFound(await findFor(request, call), request, call),
    runFound,
    streamApp(request, call) {
      const ordered = findFor(request, call).then((app) => order(app, request, call));
      return new AppStream(parts, ordered);
    },
    streamFound: (app, request, call) => new AppStream(parts, order(app, request, call)),
    async startRun(request, call) {
      const waitMs = readWait(request.wait);
      const app = await findFor(request, call);
      const { text } = request;
      request.text = "";
      const asked = { waitMs, ...(text !== undefined && { text }) };
      return create(StartRunResponseSchema, { run: await startFound(app, asked, call) });
    },
    startFound,
    offersBackground: parts.background.isOffered,
    getRun: parts.background.getRun,
    listRuns: parts.background.listRuns,
    cancelRun: parts.background.cancelRun,
  };
}

function answerFields({ runId, appId, text }: RunAppResponse) {
  return { runId, appId, text };
}

function noteApp({ notes }: Call, { id }: AppRecord): void {
  if (notes !== undefined) notes.appId = id;
}

/** The run of a call. It asks the call for what an app at hand never needs. */
class StartedRun implements Run {
  readonly runId: string;
  readonly teamId: string;
  readonly keyId: string;
  readonly app: AppRecord;
  text: string;
  readonly #call: Call;
  readonly #bytes: ByteBudget;
  #held: HeldBytes | undefined;

  constructor(
    call: Call,
    { runId, app, text, bytes }: Pick<Run, "runId" | "app" | "text"> & { bytes: ByteBudget },
  ) {
    const { teamId, keyId } = keyOf(call);
    this.runId = runId;
    this.teamId = teamId;
    this.keyId = keyId;
    this.app = app;
    this.text = text;
    this.#call = call;
    this.#bytes = bytes;
  }

  get held(): HeldBytes {
    this.#held ??= this.#bytes.open(this.teamId);
    return this.#held;
  }

  release(): void {
    this.#held?.release();
  }

  get requestId(): string {
    return this.#call.requestId;
  }

  get traceContext(): TraceContext | undefined {
    return readTraceContext((name) => this.#call.header(name));
  }

  callerMsLeft(): number | undefined {
    return this.#call.timeoutMs();
  }

  whenGone(end: (refusal: Refusal) => void): void {
    this.#call.whenGone(end);
  }
}
