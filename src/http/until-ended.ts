import { fail, Refusal } from "../refusal/refusal.ts";

/**
 * Passes the stream on until the signal is aborted, even while the stream waits for something. Then
 * it throws the refusal that is the signal's reason, otherwise UNAVAILABLE. Without this, a stream
 * that waits for its caller would delay a drain until its end.
 */
export async function* untilEnded<T>(stream: AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T> {
  let end = () => {};
  const onAbort = () => end();
  signal.addEventListener("abort", onAbort, { once: true });
  const messages = stream[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = await new Promise<IteratorResult<T>>((resolve, reject) => {
        end = () => reject(signal.reason instanceof Refusal ? signal.reason : fail("UNAVAILABLE"));
        if (signal.aborted) end();
        else messages.next().then(resolve, reject);
      });
      if (next.done) return;
      yield next.value;
    }
  } finally {
    signal.removeEventListener("abort", onAbort);
    // Not awaited: a stream that waits for its caller ends only after the caller has disconnected.
    messages.return?.().catch(() => {});
  }
}
