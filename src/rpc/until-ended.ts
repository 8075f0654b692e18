import { fail } from "../error.ts";

/**
 * The stream, up to the moment that the signal aborts, whatever the stream waits for then: its caller is told
 * UNAVAILABLE, and finds another instance or this one again. A stream that waits for its caller would otherwise hold
 * a drain up to its end.
 */
export async function* untilEnded<T>(stream: AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T> {
  const { promise: ended, resolve } = Promise.withResolvers<undefined>();
  const onAbort = () => resolve(undefined);
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  const messages = stream[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = await Promise.race([messages.next(), ended]);
      if (next === undefined) throw fail("UNAVAILABLE");
      if (next.done) return;
      yield next.value;
    }
  } finally {
    signal.removeEventListener("abort", onAbort);
    // Not awaited: what waits for its caller gets to its end only once the caller is gone.
    messages.return?.().catch(() => {});
  }
}
