import type { AppRecord } from "../apps/app-store.ts";

/** One run of an app, handed to the backend. */
export interface Run {
  readonly runId: string;
  readonly teamId: string;
  readonly app: AppRecord;
  readonly text: string;
  readonly requestId: string;
  /** Aborted when the caller goes away or the drain's time is over. */
  readonly signal: AbortSignal;
}

/**
 * Runs the app once and answers with its output. Refuses with APP_BUSY before it starts, APP_TIMEOUT past the
 * app's timeout, CANCELLED where the signal aborted, APP_FAILED for all else; never repeats what was sent once. An app that takes no
 * time answers without a promise; a refusal is always a promise's.
 */
export type Runner = (run: Run) => string | Promise<string>;
