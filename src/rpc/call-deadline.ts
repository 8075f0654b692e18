import { Code, ConnectError } from "@connectrpc/connect";
import { beforeWork, type EndCall, inTurn } from "../http/handler.ts";
import { fail, Refusal } from "../refusal/refusal.ts";

/**
 * Ends a call before its work does: at its deadline, when its caller disconnects, or at the end of
 * a drain. The reason is always a refusal: DEADLINE_EXCEEDED, or the one with which the caller is
 * gone. It says that the work may have been done only if the work has begun.
 */
export class CallDeadline {
  readonly #whenCallerGone: (end: EndCall) => void;
  #watchesCaller = false;
  #hasBegun = false;
  #abort: AbortController | undefined;
  #reason: Refusal | undefined;
  #onEnd: ((reason: Refusal) => void) | undefined;
  #onGone: EndCall | undefined;

  /**
   * `whenCallerGone` calls its argument once when the caller disconnects. It is called only if that
   * is needed.
   */
  constructor(whenCallerGone: (end: EndCall) => void) {
    this.#whenCallerGone = whenCallerGone;
  }

  /** Undefined until the call has ended. */
  get reason(): Refusal | undefined {
    return this.#reason;
  }

  /** The signal for the work. Created on first use: synchronous work never needs it. */
  get signal(): AbortSignal {
    if (!this.#abort) {
      const abort = new AbortController();
      this.#abort = abort;
      this.whenGone((reason) => abort.abort(reason));
    }
    return this.#abort.signal;
  }

  /** Calls `end` once when the call ends before its work; at once if it has ended already. */
  whenGone(end: EndCall): void {
    this.watchCaller();
    if (this.#reason) end(this.#reason);
    else this.#onGone = inTurn(this.#onGone, end);
  }

  /** Marks the work as begun: from now on it may have been done. */
  begin(): void {
    this.#hasBegun = true;
  }

  /** Ends the call when its caller disconnects; at once if it already has. */
  watchCaller(): void {
    if (this.#watchesCaller || this.#reason) return;
    this.#watchesCaller = true;
    this.#whenCallerGone((reason) => this.#end(reason));
  }

  /**
   * Returns the promise's outcome, or rejects when the call ends first, at the latest after
   * `timeoutMs`.
   */
  async within<T>(promise: Promise<T>, timeoutMs?: number): Promise<T> {
    const { promise: ended, reject } = Promise.withResolvers<never>();
    this.#onEnd = reject;
    const timer =
      timeoutMs === undefined
        ? undefined
        : setTimeout(() => this.#end(fail("DEADLINE_EXCEEDED", { mayHaveRun: true })), timeoutMs);
    if (this.#reason) reject(this.#reason);
    try {
      return await Promise.race([promise, ended]);
    } finally {
      clearTimeout(timer);
    }
  }

  #end(reason: Refusal): void {
    if (this.#reason) return;
    this.#reason = this.#hasBegun ? reason : beforeWork(reason);
    this.#onGone?.(this.#reason);
    this.#onEnd?.(this.#reason);
  }
}

/**
 * Whether a caller's timeout is over as soon as it is read. Timers count whole milliseconds, and
 * less than one has passed on the way.
 */
export function isOver(timeoutMs: number | undefined): boolean {
  return timeoutMs !== undefined && timeoutMs < 1;
}

/** Calls `end` once with the refusal of the signal of Connect's call; at once if it is aborted. */
export function whenAborted(signal: AbortSignal, end: EndCall): void {
  if (signal.aborted) end(refusalOf(signal.reason));
  else signal.addEventListener("abort", () => end(refusalOf(signal.reason)), { once: true });
}

/** Connect's own timer for the caller's deadline may be the first to fire. */
function refusalOf(reason: unknown): Refusal {
  if (reason instanceof Refusal) return reason;
  const late = reason instanceof ConnectError && reason.code === Code.DeadlineExceeded;
  return late ? fail("DEADLINE_EXCEEDED", { mayHaveRun: true }) : fail("CANCELLED");
}
