import type { Refusal } from "../error.ts";

/** A request that can be ended before its time. */
export interface Abortable {
  /** Ends the work; the request is still answered. Called at most once, and never after `unwatch`. */
  abort(reason: Refusal): void;
}

/** The requests that run, on all listeners: what a drain waits for, and what it ends. */
export interface RequestTracker {
  running(): number;
  /** A request begins; it must end once, however it ends. */
  begin(): void;
  end(): void;
  /** Resolves once no request runs. */
  idle(): Promise<void>;
  /** `abortAll` will reach the request; at once where that was called before. */
  watch(request: Abortable): void;
  unwatch(request: Abortable): void;
  /** Ends the running requests, and each that begins later. */
  abortAll(reason: Refusal): void;
  /** Aborted by `abortAll`, with its reason: for a library that ends its own requests. */
  readonly signal: AbortSignal;
}

export function createRequestTracker(): RequestTracker {
  const watched = new Set<Abortable>();
  const ending = new AbortController();
  let endReason: Refusal | undefined;
  let running = 0;
  let whenIdle: (() => void)[] = [];
  return {
    running: () => running,
    begin() {
      running += 1;
    },
    end() {
      running -= 1;
      if (running > 0) return;
      for (const resolve of whenIdle) resolve();
      whenIdle = [];
    },
    async idle() {
      if (running > 0) await new Promise<void>((resolve) => whenIdle.push(resolve));
    },
    watch(request) {
      if (endReason === undefined) watched.add(request);
      else request.abort(endReason);
    },
    unwatch: (request) => void watched.delete(request),
    abortAll(reason) {
      endReason = reason;
      ending.abort(reason);
      for (const request of watched) request.abort(reason);
      watched.clear();
    },
    signal: ending.signal,
  };
}
