import type { Refusal } from "#src/refusal/refusal.ts";
import type { Run, StreamRunner } from "#src/run/runner.ts";

/**
 * A runner whose one stream the test scripts, to see exactly what is asked of it. The app begins to
 * answer with `begin`.
 */
export function scriptedStream() {
  const begun = Promise.withResolvers<void>();
  const waiting: ((next: IteratorResult<string, undefined>) => void)[] = [];
  const failing: ((thrown: unknown) => void)[] = [];
  const seen = { asked: 0, returned: 0, runs: [] as Run[], gone: undefined as Refusal | undefined };
  const iterator = {
    takeShort: () => undefined,
    next() {
      seen.asked += 1;
      return new Promise<IteratorResult<string, undefined>>((resolve, reject) => {
        waiting.push(resolve);
        failing.push(reject);
      });
    },
    return() {
      seen.returned += 1;
      return Promise.resolve({ done: true as const, value: undefined });
    },
  };
  const runner: StreamRunner = async (run) => {
    seen.runs.push(run);
    run.whenGone((refusal) => {
      seen.gone = refusal;
      begun.reject(refusal);
    });
    await begun.promise;
    return { [Symbol.asyncIterator]: () => iterator };
  };
  return {
    runner,
    seen,
    begin: () => begun.resolve(),
    /** Refuses before the app has begun to answer. */
    refuse: (refusal: unknown) => begun.reject(refusal),
    /** Answers the oldest question that waits. */
    give: (value: string) => waiting.shift()?.({ done: false, value }),
    end: () => waiting.shift()?.({ done: true, value: undefined }),
    breakOff: (thrown: unknown) => failing[seen.asked - 1]?.(thrown),
  };
}
