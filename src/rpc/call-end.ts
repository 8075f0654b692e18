import { Code, ConnectError } from "@connectrpc/connect";
import { beforeWork } from "../edge/whole-body.ts";
import { fail, Refusal } from "../error.ts";

/**
 * What ends a unary call before its work does: its deadline, its caller, or the drain. The reason is always a refusal:
 * DEADLINE_EXCEEDED, the one that the caller's signal was aborted with, else CANCELLED; and it says that the work may
 * have been done only once that has begun.
 */
export class CallEnd {
  readonly #caller: () => AbortSignal;
  #heedsCaller = false;
  #hasBegun = false;
  #abort: AbortController | undefined;
  #reason: Refusal | undefined;
  #onEnd: ((reason: Refusal) => void) | undefined;

  /** `caller` gives the signal that is aborted when the caller goes away; it is asked for only where it is needed. */
  constructor(caller: () => AbortSignal) {
    this.#caller = caller;
  }

  /** Undefined while the call goes on. */
  get reason(): Refusal | undefined {
    return this.#reason;
  }

  /** For the work. Made when it is asked for: work that is done at once never does. */
  get signal(): AbortSignal {
    if (!this.#abort) {
      this.#abort = new AbortController();
      if (this.#reason) this.#abort.abort(this.#reason);
      this.heedCaller();
    }
    return this.#abort.signal;
  }

  /** From now on the work may have been done. */
  begin(): void {
    this.#hasBegun = true;
  }

  /** From now on the call ends with its caller. */
  heedCaller(): void {
    if (this.#heedsCaller || this.#reason) return;
    this.#heedsCaller = true;
    const caller = this.#caller();
    const onAbort = () => this.#end(refusalOf(caller.reason));
    if (caller.aborted) onAbort();
    else caller.addEventListener("abort", onAbort, { once: true });
  }

  /** The promise's outcome, or the call's end where that comes first; at the latest after `timeoutMs`. */
  async within<T>(promise: Promise<T>, timeoutMs: number): Promise<T> {
    const { promise: ended, reject } = Promise.withResolvers<never>();
    this.#onEnd = reject;
    const timer = setTimeout(() => this.#end(fail("DEADLINE_EXCEEDED", { mayHaveRun: true })), timeoutMs);
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

/** Connect's own timer for the caller's deadline may be the first to fire. */
function refusalOf(reason: unknown): Refusal {
  if (reason instanceof Refusal) return reason;
  const late = reason instanceof ConnectError && reason.code === Code.DeadlineExceeded;
  return late ? fail("DEADLINE_EXCEEDED", { mayHaveRun: true }) : fail("CANCELLED");
}
