import type { BackendRecord } from "../apps/app-store.ts";
import { fail, type Refusal } from "../error.ts";
import type { Run } from "./runner.ts";

/** How runs reach one kind of backend, over connections that are kept for the next run. */
export interface BackendRunner<Kind extends BackendRecord["kind"]> {
  /**
   * Sends the run once, never again, and answers with the text that came back. It settles only when nothing of
   * the exchange is left on this side. Refuses with APP_FAILED, or APP_TIMEOUT where the backend says so. An
   * aborted signal ends it soon, with some rejection: whoever aborted knows why.
   */
  run(run: Run, backend: Extract<BackendRecord, { kind: Kind }>, limits: RunLimits): Promise<string>;
  /** Closes all connections. No run may be under way. */
  close(): void;
}

export interface RunLimits {
  /** Aborted when the run is over whatever the backend does; the reason is the refusal. */
  readonly signal: AbortSignal;
  /** The monotonic time at which it is aborted. */
  readonly deadlineMs: number;
}

/**
 * The app failed. `happened` is for the log: it holds no header value, no URL and nothing of the output. It
 * always counts as possibly run: a 502 is never repeated, not even where the connection was refused, so that a
 * client needs no knowledge of what lies behind Keyrun.
 */
export function appFailed(happened: string): Refusal {
  return fail("APP_FAILED", { cause: new Error(happened), mayHaveRun: true });
}

/** What a failure was called by the system or a library, cut to a line for the log. */
export function nameOfFailure(error: unknown): string {
  if (!(error instanceof Error)) return "unknown failure";
  // Where every address of a host was tried, the message is empty and the code is all there is.
  const code = "code" in error && typeof error.code === "string" ? error.code : error.name;
  return (error.message || code).slice(0, failureCharactersMax);
}

const failureCharactersMax = 300;
