import { Code, ConnectError } from "@connectrpc/connect";
import { fail, Refusal } from "../error.ts";

/**
 * Does unary work under a deadline: the promise ends at the deadline at the latest, whatever the work does. The
 * signal's reason is always a refusal: DEADLINE_EXCEEDED, the reason of `parent` if that is one, else CANCELLED.
 */
export async function withDeadline<T>(
  work: (signal: AbortSignal) => Promise<T>,
  { timeoutMs, parent }: { timeoutMs: number; parent: AbortSignal },
): Promise<T> {
  const controller = new AbortController();
  const { promise: ended, reject } = Promise.withResolvers<never>();
  const end = (refusal: Refusal) => {
    controller.abort(refusal);
    reject(refusal);
  };
  const onParent = () => end(endOf(parent.reason));
  const timer = setTimeout(() => end(fail("DEADLINE_EXCEEDED", { mayHaveRun: true })), timeoutMs);
  parent.addEventListener("abort", onParent, { once: true });
  if (parent.aborted) onParent();
  try {
    return await Promise.race([work(controller.signal), ended]);
  } finally {
    clearTimeout(timer);
    parent.removeEventListener("abort", onParent);
  }
}

/** Connect's own timer for the caller's deadline may be the first to fire. */
function endOf(reason: unknown): Refusal {
  if (reason instanceof Refusal) return reason;
  const late = reason instanceof ConnectError && reason.code === Code.DeadlineExceeded;
  return late ? fail("DEADLINE_EXCEEDED", { mayHaveRun: true }) : fail("CANCELLED");
}
