import type { BackendRecord } from "../apps/app-store.ts";
import { fail, type Refusal } from "../refusal/refusal.ts";
import type { Run } from "./runner.ts";

/** Runs apps on one kind of backend, over connections that are kept for later runs. */
export interface BackendRunner<Kind extends BackendRecord["kind"]> {
  /**
   * Sends the run once and returns the text that came back; it is never sent again. The promise
   * settles only after the exchange is completely over on this side. Refuses with APP_FAILED, or
   * with APP_TIMEOUT if the backend says so. After the signal is aborted it soon rejects, with any
   * error; use the signal's reason instead.
   */
  run(run: Run, backend: Extract<BackendRecord, { kind: Kind }>, limits: RunLimits): Promise<string>;
  /** Closes all connections. Call it only when no run is under way. */
  close(): void;
}

export interface RunLimits {
  /** Aborted when the run must end, whatever the backend does. The reason is the refusal. */
  readonly signal: AbortSignal;
  /** The monotonic time at which the signal is aborted. */
  readonly deadlineMs: number;
}

/**
 * The refusal for a failed app. `happened` goes to the log: it must hold no header value, no URL
 * and nothing of the output. It counts as possibly run even if the connection was refused, so a
 * client never repeats a 502 and needs no knowledge of what is behind Keyrun.
 */
export function appFailed(happened: string): Refusal {
  return fail("APP_FAILED", { cause: new Error(happened), mayHaveRun: true });
}

/** What the system or a library calls a failure, cut to one line for the log. */
export function nameOfFailure(error: unknown): string {
  if (!(error instanceof Error)) return "unknown failure";
  // If every address of a host failed, Node's message is empty and only the code is set.
  const code = "code" in error && typeof error.code === "string" ? error.code : error.name;
  return (error.message || code).slice(0, failureCharactersMax);
}

const failureCharactersMax = 300;
