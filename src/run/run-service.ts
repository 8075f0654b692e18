import { create } from "@bufbuild/protobuf";
import {
  type RunAppRequest,
  type RunAppResponse,
  RunAppResponseSchema,
  type StreamAppRequest,
  type StreamAppResponse,
} from "#gen/keyrun/v1/run_service_pb.ts";
import type { AppRecord } from "../apps/app-store.ts";
import { type CheckKey, mayRunApp } from "../auth/key-evidence.ts";
import type { Call, KeyPrincipal } from "../auth/principal.ts";
import { isResourceId } from "../base/fields.ts";
import type { RecordSource } from "../cache/record-source.ts";
import { readTraceContext, type TraceContext } from "../http/trace-context.ts";
import { type ByteBudget, type HeldBytes, overloaded, textBytes } from "../limit/byte-budget.ts";
import { aboutApp, fail, Refusal } from "../refusal/refusal.ts";
import { AppStream, type AppStreamParts, type StreamOrder } from "./app-stream.ts";
import {
  type IdempotentOrder,
  type IdempotentRuns,
  idempotencyHeader,
  refuseIdempotencyKey,
  replayedHeader,
} from "./idempotency/idempotent-runs.ts";
import type { Run, Runner } from "./runner.ts";

/**
 * `keyrun.v1.RunService`: what happens to an admitted request that runs an app. It finds the app
 * that the key may run, and runs it whole, at most once for an Idempotency-Key, or as a stream. It
 * returns complete Protobuf messages.
 */
export interface RunMethods {
  /**
   * The caller must be admitted already: its key is verified and its request counted. Synchronous
   * if the app's output is there at once.
   */
  runApp(request: RunAppRequest, call: Call): RunAppResponse | Promise<RunAppResponse>;
  /** Like `runApp`, for a handler that has found the app already. */
  runFound(app: AppRecord, request: RunAppRequest, call: Call): RunAppResponse | Promise<RunAppResponse>;
  /** Like `runApp`, but streams the output: `started` first, then its pieces. */
  streamApp(request: StreamAppRequest, call: Call): AsyncIterable<StreamAppResponse>;
  /** Like `streamApp`, for a handler that has found the app already. */
  streamFound(app: AppRecord, request: StreamAppRequest, call: Call): AsyncIterable<StreamAppResponse>;
}

export function createRunService(
  parts: AppStreamParts & {
    readonly findRunnableApp: FindRunnableApp;
    readonly run: Runner;
    /** Runs apps for requests with an Idempotency-Key. */
    readonly idempotent: Pick<IdempotentRuns, "run">;
    readonly newRunId: () => string;
    readonly checkKey: CheckKey;
    readonly bytes: ByteBudget;
  },
): RunMethods {
  const begin = (app: AppRecord, text: string, call: Call): StartedRun =>
    new StartedRun(call, { runId: parts.newRunId(), app, text, bytes: parts.bytes });

  const runFound: RunMethods["runFound"] = (app, request, call) => {
    noteApp(call, app);
    const text = takeTextOf(request);
    const key = call.header(idempotencyHeader);
    if (key !== undefined) {
      const { teamId, keyId } = keyOf(call);
      return answerOnce({ teamId, keyId, app, text, key }, call);
    }
    const run = begin(app, text, call);
    const output = parts.run(run);
    return output instanceof Promise ? answerLater(run, output) : answerOf(run, output);
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

  /** Waits for the app, and counts the text that waits with it. */
  async function foundLater(
    { text = "" }: Pick<RunAppRequest, "text">,
    call: Call,
    app: Promise<AppRecord>,
  ): Promise<AppRecord> {
    const held = parts.bytes.open(keyOf(call).teamId);
    try {
      if (!held.take(textBytes(text))) throw overloaded();
      return await app;
    } finally {
      held.release();
    }
  }

  return {
    runApp(request, call) {
      const app = parts.findRunnableApp(keyOf(call), request.appId);
      return app instanceof Promise
        ? foundLater(request, call, app).then((found) => runFound(found, request, call))
        : runFound(app, request, call);
    },
    runFound,
    streamApp(request, call) {
      const app = parts.findRunnableApp(keyOf(call), request.appId);
      const ordered =
        app instanceof Promise
          ? foundLater(request, call, app).then((found) => order(found, request, call))
          : order(app, request, call);
      return new AppStream(parts, ordered);
    },
    streamFound: (app, request, call) => new AppStream(parts, order(app, request, call)),
  };
}

/** The message is kept until the end of the call, but not its text. */
function takeTextOf(request: Pick<RunAppRequest, "text">): string {
  const { text } = request;
  request.text = "";
  if (text !== undefined) return text;
  const problem = "text is required: a string, which may be empty.";
  throw fail("INVALID_ARGUMENT", { param: "text", problem });
}

async function answerLater(run: StartedRun, output: Promise<string>): Promise<RunAppResponse> {
  try {
    return answerOf(run, await output);
  } catch (thrown) {
    throw thrown instanceof Refusal ? aboutApp(thrown, run.app.id) : thrown;
  } finally {
    run.release();
  }
}

function answerOf({ runId, app }: Run, text: string): RunAppResponse {
  return create(RunAppResponseSchema, { runId, appId: app.id, text });
}

function noteApp({ notes }: Call, { id }: AppRecord): void {
  if (notes !== undefined) notes.appId = id;
}

function keyOf({ principal }: Call): KeyPrincipal {
  if (principal.kind !== "api_key") throw fail("INVALID_CREDENTIAL");
  return principal;
}

/** Finds the app of this id that the key may run. Synchronous where the app is in memory. */
export type FindRunnableApp = (
  key: Pick<KeyPrincipal, "teamId" | "restrictions">,
  appId: string,
) => AppRecord | Promise<AppRecord>;

/**
 * Throws APP_NOT_ALLOWED where the key is restricted to other apps, whether or not this one exists.
 * Throws APP_NOT_FOUND, with the same sentence, where the app does not exist, its id can't exist,
 * or the team may not run it.
 */
export function createFindRunnableApp(apps: RecordSource<AppRecord>): FindRunnableApp {
  const check = (teamId: string, appId: string, app: AppRecord | null | undefined): AppRecord => {
    if (app && (app.teamIds.length === 0 || app.teamIds.includes(teamId))) return app;
    throw fail("APP_NOT_FOUND", { param: "app_id", metadata: { app_id: appId } });
  };
  return ({ teamId, restrictions }, appId) => {
    if (!mayRunApp(restrictions, appId)) {
      throw fail("APP_NOT_ALLOWED", { param: "app_id", metadata: { app_id: appId } });
    }
    if (!isResourceId(appId)) return check(teamId, appId, null);
    const held = apps.peek(appId);
    return held === undefined
      ? apps.load(appId).then((app) => check(teamId, appId, app))
      : check(teamId, appId, held);
  };
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
