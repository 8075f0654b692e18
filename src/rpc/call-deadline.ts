import { Code, ConnectError } from "@connectrpc/connect";
import { beforeWork, unlessAborted } from "../http/handler.ts";
import { fail, Refusal } from "../refusal/refusal.ts";

/**
 * Ends a call before its work does: at its deadline, when its caller disconnects, or at the end of
 * a drain. The reason is always a refusal: DEADLINE_EXCEEDED, or the one with which the caller is
 * gone. It says that the work may have been done only if the work has begun.
 */
export class CallDeadline {
  readonly #end = new AbortController();
  #hasBegun = false;

  /** `caller` is aborted when the caller disconnects. */
  constructor(caller: AbortSignal) {
    const end = () => this.#abort(refusalOf(caller.reason));
    if (caller.aborted) end();
    else caller.addEventListener("abort", end, { once: true });
  }

  /** Aborted when the call ends before its work. */
  get signal(): AbortSignal {
    return this.#end.signal;
  }

  /** Marks the work as begun: from now on it may have been done. */
  begin(): void {
    this.#hasBegun = true;
  }

  /**
   * Returns the promise's outcome, or rejects when the call ends first, at the latest after
   * `timeoutMs`.
   */
  async within<T>(promise: Promise<T>, timeoutMs?: number): Promise<T> {
    const late = () => this.#abort(fail("DEADLINE_EXCEEDED", { mayHaveRun: true }));
    const timer = timeoutMs === undefined ? undefined : setTimeout(late, timeoutMs);
    try {
      return await unlessAborted(promise, this.signal);
    } finally {
      clearTimeout(timer);
    }
  }

  #abort(reason: Refusal): void {
    this.#end.abort(this.#hasBegun ? reason : beforeWork(reason));
  }
}

/**
 * Whether a caller's timeout is over as soon as it is read. Timers count whole milliseconds, and
 * less than one has passed on the way.
 */
export function isOver(timeoutMs: number | undefined): boolean {
  return timeoutMs !== undefined && timeoutMs < 1;
}

/** Connect's own timer for the caller's deadline may be the first to fire. */
function refusalOf(reason: unknown): Refusal {
  if (reason instanceof Refusal) return reason;
  const late = reason instanceof ConnectError && reason.code === Code.DeadlineExceeded;
  return late ? fail("DEADLINE_EXCEEDED", { mayHaveRun: true }) : fail("CANCELLED");
}
