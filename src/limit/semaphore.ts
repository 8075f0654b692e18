import { unavailable } from "../refusal/refusal.ts";

/** Runs work while a slot is free. Other work waits in a queue, first come first served. */
export interface Semaphore {
  /**
   * Runs the work, and resolves or rejects as it does. Where no slot comes free in time, or too
   * many wait already, it rejects with UNAVAILABLE and never starts the work.
   */
  run<T>(work: () => Promise<T>): Promise<T>;
}

/** How many wait, counted over all semaphores that share this object. */
export interface WaiterCount {
  size: number;
  readonly sizeMax: number;
}

/**
 * A semaphore with as many slots as `slots` returns each time it is called; the number may change,
 * and must be at least 1. Each piece of work waits at most `waitMsMax`. `onIdle` is called whenever
 * the last work has ended, before other work can start.
 */
export function createSemaphore(options: {
  slots: () => number;
  waitMsMax: number;
  waiters: WaiterCount;
  onIdle?: () => void;
}): Semaphore {
  const { slots, waitMsMax, waiters, onIdle } = options;
  let running = 0;
  const queue = new Set<Waiter>();

  function leaveQueue(waiter: Waiter): void {
    clearTimeout(waiter.timer);
    queue.delete(waiter);
    waiters.size--;
  }

  function waitForSlot(): Promise<void> {
    if (waiters.size >= waiters.sizeMax) throw unavailable();
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        leaveQueue(waiter);
        reject(unavailable());
      }, waitMsMax);
      const waiter = { resolve, timer };
      queue.add(waiter);
      waiters.size++;
    });
  }

  /** Takes the slot before the waiter goes on, so that no other caller can take it in between. */
  function startNext(): void {
    for (const waiter of queue) {
      if (running >= slots()) return;
      running++;
      leaveQueue(waiter);
      waiter.resolve();
    }
  }

  return {
    async run(work) {
      if (queue.size === 0 && running < slots()) running++;
      else await waitForSlot();
      try {
        return await work();
      } finally {
        running--;
        startNext();
        if (running === 0) onIdle?.();
      }
    },
  };
}

interface Waiter {
  readonly resolve: () => void;
  readonly timer: NodeJS.Timeout;
}
