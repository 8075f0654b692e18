import type { Refusal } from "../../refusal/refusal.ts";
import { SlotList } from "./slot-list.ts";

/** A request that can be aborted. */
export interface Abortable {
  /**
   * Ends the work. The request is still answered. Never called after `unwatch`.
   */
  abort(reason: Refusal): void;
}

/** The running requests of all listeners. A drain waits for them, and aborts them at its end. */
export interface RequestTracker {
  running(): number;
  /** Counts a request as running. Call `end` once for it, however it ends. */
  begin(): void;
  end(): void;
  /** Resolves once no request is running. */
  idle(): Promise<void>;
  /**
   * Lets `abortAll` abort the request; aborts it at once if `abortAll` was called before. Returns
   * its place, for `unwatch`.
   */
  watch(request: Abortable): number;
  /** Call it once for each watched request. */
  unwatch(place: number): void;
  /** Aborts the watched requests, and every request that is watched later. */
  abortAll(reason: Refusal): void;
}

export function createRequestTracker(): RequestTracker {
  const watched = new SlotList<Abortable>();
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
      const place = watched.add(request);
      if (endReason !== undefined) request.abort(endReason);
      return place;
    },
    unwatch: (place) => watched.remove(place),
    abortAll(reason) {
      endReason = reason;
      for (const request of watched) request.abort(reason);
    },
  };
}
