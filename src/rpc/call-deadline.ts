import { Code, ConnectError } from "@connectrpc/connect";
import { beforeWork } from "../http/whole-body.ts";
import { fail, Refusal } from "../refusal/refusal.ts";

/**
 * Ends a call before its work does: at its deadline, when its caller disconnects, or at the end of
 * a drain. The reason is always a refusal: DEADLINE_EXCEEDED, the reason of the caller's signal, or
 * CANCELLED. It says that the work may have been done only if the work has begun.
 */
export class CallDeadline {
  readonly #caller: () => AbortSignal;
  #watchesCaller = false;
  #hasBegun = false;
  #abort: AbortController | undefined;
  #reason: Refusal | undefined;
  #onEnd: ((reason: Refusal) => void) | undefined;

  /**
   * `caller` returns the signal that is aborted when the caller disconnects; called only if needed.
   */
  constructor(caller: () => AbortSignal) {
    this.#caller = caller;
  }

  /** Undefined until the call has ended. */
  get reason(): Refusal | undefined {
    return this.#reason;
  }

  /** The signal for the work. Created on first use: synchronous work never needs it. */
  get signal(): AbortSignal {
    if (!this.#abort) {
      this.#abort = new AbortController();
      if (this.#reason) this.#abort.abort(this.#reason);
      this.watchCaller();
    }
    return this.#abort.signal;
  }

  /** Marks the work as begun: from now on it may have been done. */
  begin(): void {
    this.#hasBegun = true;
  }

  /** Ends the call when its caller disconnects; at once if it already has. */
  watchCaller(): void {
    if (this.#watchesCaller || this.#reason) return;
    this.#watchesCaller = true;
    const caller = this.#caller();
    const onAbort = () => this.#end(refusalOf(caller.reason));
    if (caller.aborted) onAbort();
    else caller.addEventListener("abort", onAbort, { once: true });
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
    this.#reason ??= this.#hasBegun ? reason : beforeWork(reason);
    this.#abort?.abort(this.#reason);
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

/** Connect's own timer for the caller's deadline may be the first to fire. */
function refusalOf(reason: unknown): Refusal {
  if (reason instanceof Refusal) return reason;
  const late = reason instanceof ConnectError && reason.code === Code.DeadlineExceeded;
  return late ? fail("DEADLINE_EXCEEDED", { mayHaveRun: true }) : fail("CANCELLED");
}
