/**
 * Virtual time: events in order, each followed by every promise that it settles. So production code
 * with promises runs deterministically, and as fast as the machine can.
 */
export interface VirtualTime {
  /** Milliseconds of real time, as an observer outside of all instances sees it. */
  now(): number;
  /** Runs once at this time, or now if it is past. */
  at(timeMs: number, run: () => void): Scheduled;
  /** Runs all events up to this time. */
  runUntil(timeMs: number): Promise<void>;
}

export interface Scheduled {
  cancelled: boolean;
}

interface Event extends Scheduled {
  readonly timeMs: number;
  readonly order: number;
  readonly run: () => void;
}

/** `settled` resolves once all is done that an event has begun. */
export function createVirtualTime(settled = promisesSettled): VirtualTime {
  const heap: Event[] = [];
  let nowMs = 0;
  let orders = 0;
  return {
    now: () => nowMs,
    at(timeMs, run) {
      const event = { timeMs: Math.max(timeMs, nowMs), order: ++orders, run, cancelled: false };
      push(heap, event);
      return event;
    },
    async runUntil(timeMs) {
      // What was begun outside of an event goes on at this time, and not at that of the next event.
      await settled();
      for (let next = heap[0]; next && next.timeMs <= timeMs; next = heap[0]) {
        pop(heap);
        if (next.cancelled) continue;
        nowMs = next.timeMs;
        next.run();
        await settled();
      }
      nowMs = timeMs;
    },
  };
}

/** Node starts the next tick only when no promise is left to settle. */
function promisesSettled(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve));
}

function isBefore(a: Event, b: Event): boolean {
  return a.timeMs < b.timeMs || (a.timeMs === b.timeMs && a.order < b.order);
}

function push(heap: Event[], event: Event): void {
  let at = heap.push(event) - 1;
  while (at > 0) {
    const parent = (at - 1) >> 1;
    if (!isBefore(event, heap[parent]!)) break;
    heap[at] = heap[parent]!;
    at = parent;
  }
  heap[at] = event;
}

function pop(heap: Event[]): void {
  const last = heap.pop()!;
  if (heap.length === 0) return;
  let at = 0;
  for (;;) {
    let child = 2 * at + 1;
    if (child >= heap.length) break;
    if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child += 1;
    if (!isBefore(heap[child]!, last)) break;
    heap[at] = heap[child]!;
    at = child;
  }
  heap[at] = last;
}
