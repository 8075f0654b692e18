/**
 * What the runs of apps pass through: what a request to run one must name, the run itself, the
 * functions that run it whole or as a stream, and what each kind of backend gives. At the end: the
 * refusals that all kinds share.
 */

import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { RunAppRequest } from "#gen/keyrun/v1/run_service_pb.ts";
import type { AppRecord, BackendRecord } from "../apps/app-store.ts";
import { checkTemplateInput } from "../apps/app-template.ts";
import { mayRunApp } from "../auth/key-evidence.ts";
import type { Call, KeyPrincipal } from "../auth/principal.ts";
import type { Clock } from "../base/clock.ts";
import { isResourceId } from "../base/fields.ts";
import type { RecordSource } from "../cache/record-source.ts";
import type { Reservation } from "../http/handler.ts";
import type { TraceContext } from "../http/trace-context.ts";
import { overloaded } from "../limit/byte-budget.ts";
import { fail, Refusal } from "../refusal/refusal.ts";
import { checkInput } from "./json-values.ts";

/** Finds the app of this id that the key may call. */
export type FindApp = (
  key: Pick<KeyPrincipal, "teamId" | "restrictions">,
  appId: string,
) => Promise<AppRecord>;

/**
 * Rejects with APP_NOT_ALLOWED where the key is restricted to other apps, whether or not this one
 * exists. Rejects with APP_NOT_FOUND, in the same words, where the app does not exist, its id can't
 * exist, or the team may not run it.
 */
export function createFindApp(apps: RecordSource<AppRecord>): FindApp {
  return async ({ teamId, restrictions }, appId) => {
    if (!mayRunApp(restrictions, appId)) {
      throw fail("APP_NOT_ALLOWED", { param: "app_id", metadata: { app_id: appId } });
    }
    const app = isResourceId(appId) ? await apps.load(appId) : undefined;
    if (app && (app.teamIds.length === 0 || app.teamIds.includes(teamId))) return app;
    throw fail("APP_NOT_FOUND", { param: "app_id", metadata: { app_id: appId } });
  };
}

/** As `FindApp`. Also rejects with INVALID_ARGUMENT where the app is a guard. */
export type FindRunnableApp = FindApp;

export function createFindRunnableApp(findApp: FindApp): FindRunnableApp {
  return async (key, appId) => {
    const app = await findApp(key, appId);
    if (app.backend.kind === "guard") throw guardIsNotRun();
    return app;
  };
}

/** The refusal for who wants to run an app that is a guard. */
export function guardIsNotRun(): Refusal {
  const problem =
    "This app is a service behind a proxy, so it can't be run. Call the service at its own address, with the same API key.";
  return fail("INVALID_ARGUMENT", { param: "app_id", problem });
}

/**
 * Returns the input of a request, which must have what the app is sent, and reserves for it: that
 * of a compressed body is longer than the body, for which the request has reserved. Throws
 * INVALID_ARGUMENT, and OVERLOADED.
 */
export function readInput(
  { backend }: AppRecord,
  { text, input }: Pick<RunAppRequest, "text" | "input">,
  { http }: Pick<Call, "http">,
): RunInput {
  if (text === undefined && input === undefined) {
    const problem = "text or input is required: a string, which may be empty, or a JSON object.";
    throw fail("INVALID_ARGUMENT", { param: "text", problem });
  }
  if (input !== undefined) checkInput(input);
  if (backend.kind === "http" && backend.template) checkTemplateInput(backend.template, { text, input });
  if (!http.reservation.reserveUpTo(inputCharacters({ text, input }))) throw overloaded();
  return { text, input };
}

/** How long an input is as it is sent to an app, without what else is sent. */
export function inputCharacters({ text = "", input }: RunInput): number {
  return text.length + (input === undefined ? 0 : JSON.stringify(input).length);
}

/** The team's key that calls. */
export function keyOf({ principal }: Call): KeyPrincipal {
  if (principal.kind !== "api_key") throw fail("INVALID_CREDENTIAL");
  return principal;
}

/** What a caller gives an app: at least one of the two. */
export interface RunInput {
  readonly text?: string | undefined;
  readonly input?: JsonObject | undefined;
}

/** What an app gives: at least one of the two. `output` may be null. */
export interface RunOutput {
  readonly text?: string | undefined;
  readonly output?: JsonValue | undefined;
}

/** A piece of a streamed output: text, or the JSON, which comes once and last. */
export type StreamPiece = string | { readonly output: JsonValue };

/** One run of an app, as a backend gets it. */
export interface Run extends RunInput {
  readonly runId: string;
  readonly teamId: string;
  readonly keyId: string;
  readonly app: AppRecord;
  /** Has reserved for the input, and reserves for the answer. The maker of the run frees it. */
  readonly reservation: Reservation;
  /**
   * Nobody waits for it. It has the app's time for such runs, and a slot and a connection that are
   * counted apart.
   */
  readonly isBackground?: boolean;
  readonly requestId: string;
  /** What the app gets as `traceparent` and `tracestate`; undefined if it gets none. */
  readonly traceContext?: TraceContext | undefined;
  /** Called with the status that the app answered: that of HTTP, or that of gRPC. */
  answered?(status: number): void;
  /** Gets what is sent and answered over HTTP, beside what the run makes of it. */
  readonly watch?: AnswerWatch;
  /**
   * What is left until the caller's deadline, in milliseconds; undefined if it named none. Absent
   * where the run goes on without its caller.
   */
  callerMsLeft?(): number | undefined;
  /**
   * Aborted when the caller leaves or the time to drain is over. Its reason is always a `Refusal`.
   * It lives no longer than the run, so no listener needs to be removed.
   */
  readonly signal: AbortSignal;
}

/** Sees what is sent, and an answer as it comes. None of its methods throws. */
export interface AnswerWatch {
  onSent(body: string): void;
  onHead(status: number, headers: Readonly<Record<string, string | string[] | undefined>>): void;
  onBytes(bytes: Buffer): void;
}

/**
 * The deadline that is sent to the app, in monotonic time: that of the app, or of the caller if
 * that is earlier. Keyrun itself ends the run at either, each with its own refusal.
 */
export function sentDeadline(run: Run, deadlineMs: number, clock: Pick<Clock, "monotonicMs">): number {
  const callerMsLeft = run.callerMsLeft?.();
  return callerMsLeft === undefined ? deadlineMs : Math.min(deadlineMs, clock.monotonicMs() + callerMsLeft);
}

/**
 * Runs the app once and returns its output. Refuses with APP_BUSY before it starts (not a run in
 * the background, whose slot the caller has), OVERLOADED if there is no room for its bytes,
 * APP_UNREACHABLE if nothing of it could be sent, APP_TIMEOUT after the app's timeout, the refusal
 * of `signal` if the caller leaves, APP_REFUSED or APP_BUSY if the app says so, and APP_FAILED in
 * all other cases. A run that was sent is never sent again.
 */
export type Runner = (run: Run) => Promise<RunOutput>;

/**
 * Runs the app once and streams its output. The first text comes as soon as the app has begun to
 * answer; until then it refuses as `Runner` does. Any text may be empty. They are well-formed and
 * of any length: short texts of the app that are there together come as one. The iteration ends
 * with the app's whole output, and throws a refusal if the stream breaks off. Its signal ends it at
 * once, also while a text is waited for. The app is read only a little ahead of its reader.
 */
export type StreamRunner = (run: Run) => AsyncGenerator<StreamPiece, void>;

/** A backend that is a server of Keyrun's runs. The built-in one and a guard call nobody. */
export type RemoteBackend = Exclude<BackendRecord, { kind: "echo" | "guard" }>;

/** Runs apps on one kind of backend, over connections that are kept for later runs. */
export interface BackendRunner<Backend extends RemoteBackend = RemoteBackend> {
  /**
   * Sends the run once and returns the text that came back; it is never sent again. The promise
   * settles only after the exchange is completely over on this side. Refuses with APP_UNREACHABLE
   * if it is certain that no part of the run was sent, with APP_TIMEOUT, APP_REFUSED or APP_BUSY if
   * the backend says so, and otherwise with APP_FAILED. When the limits end the run it soon
   * rejects: with APP_UNREACHABLE if nothing was sent, otherwise with any error; use the refusal of
   * the limits instead.
   */
  run(run: Run, backend: Backend, limits: RunLimits): Promise<RunOutput>;
  /**
   * Sends the run once and streams what comes back, as `StreamRunner` does, but without its limits.
   * Iterate it once. It gives no text after the signal is aborted, and then throws its reason, or
   * APP_UNREACHABLE if that is APP_TIMEOUT and no part of the run was sent.
   */
  stream(run: Run, backend: Backend, limits: StreamLimits): AsyncIterable<StreamPiece>;
  /** What a trace says of a call, whose output is streamed or not. */
  traceOf(backend: Backend, isStreamed: boolean): CallTrace;
  /** Closes all connections. Call it only when no run is under way. */
  close(): void;
}

/** One call of a backend, in the words of OpenTelemetry's semantic conventions. */
export interface CallTrace {
  readonly spanName: string;
  /** The server and the method. Not the whole URL: its path and query may hold a secret. */
  readonly attributes: Readonly<Record<string, string | number>>;
  /** The attribute that gets the status of the answer. */
  readonly statusAttribute: string;
}

export interface RunLimits {
  /**
   * Aborted when the run must end, whatever the backend does, and not before a runner is called.
   * Its reason is always a `Refusal`. It lives no longer than the run.
   */
  readonly signal: AbortSignal;
  /** The monotonic time at which the run ends at the latest. */
  readonly deadlineMs: number;
}

export interface StreamLimits {
  /** The deadline, in monotonic time. The signal is aborted then. */
  readonly deadlineMs: number;
  /** Aborted when the stream must end. Its reason is a refusal. */
  readonly signal: AbortSignal;
  /** Called with each sign of life that gives no text, not even an empty one. */
  alive(): void;
}

/**
 * The refusal for an app that failed after the run, or a part of it, may have been sent. `happened`
 * goes to the log: of the answer it may hold the status and the media type alone, and no URL. It is
 * a plain string: the stack of an error would only show where Keyrun noticed, and it would be
 * logged with every run of an app that fails.
 */
export function appFailed(happened: string): Refusal {
  return fail("APP_FAILED", { cause: happened, mayHaveRun: true });
}

/** The refusal for an app that took too long. `happened` is that of `appFailed`. */
export function appTimedOut(happened: string): Refusal {
  return fail("APP_TIMEOUT", { cause: happened, mayHaveRun: true });
}

/**
 * The refusal for an app that has got nothing of the run, so that the caller may repeat it.
 * `happened` goes to the log, as that of `appFailed`.
 */
export function appUnreachable(happened: string): Refusal {
  return fail("APP_UNREACHABLE", { cause: happened });
}

/**
 * The refusal of a run that was ended for this reason, and whose exchange then ended so.
 * APP_TIMEOUT would say that the app may have done its work, but an app that has got nothing of the
 * run has not.
 */
export function endedBy(reason: Refusal, outcome: unknown): Refusal {
  const isUnsent = outcome instanceof Refusal && outcome.reason === "APP_UNREACHABLE";
  if (reason.reason !== "APP_TIMEOUT" || !isUnsent) return reason;
  return appUnreachable("No connection within the app's timeout.");
}
