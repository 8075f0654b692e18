import type { AppRecord } from "../apps/app-store.ts";
import type { TraceContext } from "../http/trace-context.ts";
import type { HeldBytes } from "../limit/byte-budget.ts";
import type { Refusal } from "../refusal/refusal.ts";

/** One run of an app, as a backend gets it. */
export interface Run {
  readonly runId: string;
  readonly teamId: string;
  readonly keyId: string;
  readonly app: AppRecord;
  /** Empty once a runner has taken it with `takeText`: a run that waits for its app holds none. */
  text: string;
  /** Counts the bytes that the run holds. The maker of the run releases it at its end. */
  readonly held: HeldBytes;
  readonly requestId: string;
  /** What the app gets as `traceparent` and `tracestate`; undefined if it gets none. */
  readonly traceContext?: TraceContext | undefined;
  /** Called with the status that the app answered: that of HTTP, or that of gRPC. */
  answered?(status: number): void;
  /**
   * Calls `end` once when the caller leaves or the time to drain is over, at once if that has
   * happened already. The refusal is the run's own.
   */
  whenGone(end: (refusal: Refusal) => void): void;
}

/** Returns the text of the run, which the run then does not keep. */
export function takeText(run: { text: string }): string {
  const { text } = run;
  run.text = "";
  return text;
}

/**
 * Runs the app once and returns its output. Refuses with APP_BUSY before it starts, OVERLOADED if
 * there is no room for its bytes, APP_UNREACHABLE if nothing of it could be sent, APP_TIMEOUT after
 * the app's timeout, the refusal of `whenGone` if the caller leaves, and APP_FAILED in all other
 * cases. A run that was sent is never sent again.
 * Synchronous if the app takes no time; a refusal is always a rejected promise.
 */
export type Runner = (run: Run) => string | Promise<string>;

/**
 * Runs the app once and streams its output. Resolves as soon as the app has begun to answer; until
 * then it refuses as `Runner` does. The pieces are well-formed, not empty and of any length. The
 * iteration ends with the app's whole output, and throws a refusal if the stream breaks off. To
 * return the iterator ends the run. At most one piece waits in memory while nobody asks for it.
 */
export type StreamRunner = (run: Run) => Promise<Pieces>;

export interface Pieces {
  [Symbol.asyncIterator](): PieceIterator;
}

export interface PieceIterator extends AsyncIterator<string> {
  /**
   * Takes the next piece, if it is there already and has at most `shortTextMax` code units.
   * Undefined if not, and where other streams wait for their turn.
   */
  takeShort(): string | undefined;
}
