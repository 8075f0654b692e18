import type { BackendRecord } from "../apps/app-store.ts";
import { fail, Refusal } from "../refusal/refusal.ts";
import type { Run } from "./runner.ts";
import type { PieceSource } from "./stream/piece-source.ts";

/** Runs apps on one kind of backend, over connections that are kept for later runs. */
export interface BackendRunner<Kind extends BackendRecord["kind"]> {
  /**
   * Sends the run once and returns the text that came back; it is never sent again. The promise
   * settles only after the exchange is completely over on this side. Refuses with APP_UNREACHABLE
   * if it is certain that no part of the run was sent, with APP_TIMEOUT if the backend says so, and
   * otherwise with APP_FAILED. When the limits end the run it soon rejects: with APP_UNREACHABLE if
   * nothing was sent, otherwise with any error; use the refusal of the limits instead.
   */
  run(run: Run, backend: Extract<BackendRecord, { kind: Kind }>, limits: RunLimits): Promise<string>;
  /**
   * Sends the run once and streams what comes back, until the deadline in monotonic time. The
   * caller ends it then.
   */
  stream(run: Run, backend: Extract<BackendRecord, { kind: Kind }>, deadlineMs: number): PieceSource;
  /** Closes all connections. Call it only when no run is under way. */
  close(): void;
}

export interface RunLimits {
  /** The refusal with which the run must end; undefined while it may go on. */
  readonly refusal: Refusal | undefined;
  /** The monotonic time at which the run ends at the latest. */
  readonly deadlineMs: number;
  /**
   * Calls `end` once when the run must end, whatever the backend does; at once if it must already.
   * A runner calls this once. `end` must not throw.
   */
  whenOver(end: (refusal: Refusal) => void): void;
}

/**
 * The refusal for an app that failed after the run, or a part of it, may have been sent. `happened`
 * goes to the log: it must hold no header value, no URL and nothing of the output.
 */
export function appFailed(happened: string): Refusal {
  return fail("APP_FAILED", { cause: new Error(happened), mayHaveRun: true });
}

/**
 * The refusal for an app that has got nothing of the run, so that the caller may repeat it.
 * `happened` goes to the log. It is a plain string: the stack of an error would only show where
 * Keyrun noticed, and it would be logged with every run of an app that is down.
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

/** What the system or a library calls a failure, cut to one line for the log. */
export function nameOfFailure(error: unknown): string {
  if (!(error instanceof Error)) return "unknown failure";
  // If every address of a host failed, Node's message is empty and only the code is set.
  const code = "code" in error && typeof error.code === "string" ? error.code : error.name;
  const [line = ""] = (error.message || code).split("\n", 1);
  return line.slice(0, failureCharactersMax);
}

const failureCharactersMax = 300;
