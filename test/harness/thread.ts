import { once } from "node:events";
import { parentPort, Worker } from "node:worker_threads";

/** Functions of a thread, as another one calls them. Arguments and results are copied. */
export type Calls<Api> = {
  readonly [Name in keyof Api]: Api[Name] extends (...args: infer Args) => infer Result
    ? (...args: Args) => Promise<Awaited<Result>>
    : never;
};

interface Call {
  readonly id: number;
  readonly name: string;
  readonly args: readonly unknown[];
}

type Answer = { readonly id: number } & ({ readonly result: unknown } | { readonly error: string });

/** Starts a file that calls `serveThread`: what a test does in its own thread does not slow it. */
export async function startThread<Api extends object>(
  file: URL,
  workerData?: unknown,
): Promise<{ readonly calls: Calls<Api>; end(): Promise<unknown> }> {
  const worker = new Worker(file, { workerData });
  await once(worker, "online");
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  worker.on("message", (answer: Answer) => {
    if ("error" in answer) waiting.get(answer.id)?.reject(new Error(answer.error));
    else waiting.get(answer.id)?.resolve(answer.result);
    waiting.delete(answer.id);
  });
  worker.on("error", (error) => {
    for (const each of waiting.values()) each.reject(error);
  });
  let ids = 0;
  const callOf =
    (name: string) =>
    (...args: unknown[]) => {
      const call: Call = { id: ids++, name, args };
      const answer = Promise.withResolvers<unknown>();
      waiting.set(call.id, answer);
      worker.postMessage(call);
      return answer.promise;
    };
  const calls = new Proxy({}, { get: (_, name) => callOf(String(name)) }) as Calls<Api>;
  return { calls, end: () => worker.terminate() };
}

/** Answers the calls of the thread that started this one. */
export function serveThread(api: Readonly<Record<string, (...args: never[]) => unknown>>): void {
  parentPort?.on("message", async ({ id, name, args }: Call) => {
    let answer: Answer;
    try {
      answer = { id, result: await api[name]?.(...(args as never[])) };
    } catch (thrown) {
      answer = { id, error: String(thrown) };
    }
    parentPort?.postMessage(answer);
  });
}
