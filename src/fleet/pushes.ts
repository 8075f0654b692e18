/**
 * The way of changes into the control record: in batches, one push at a time, and again after a
 * failure.
 */

import type { Clock } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import type { ControlChange, ControlStore, ControlView } from "./control-store.ts";

interface PushesParts {
  readonly control: Pick<ControlStore, "push">;
  readonly clock: Clock;
  /** Called with the view of each push, before anything waits for other instances. */
  readonly onPushed: (view: ControlView) => void;
  readonly pass: (pushed: { readonly seq: number; readonly view: ControlView }) => Promise<void>;
  readonly events: {
    onPushFailed?(cause: unknown): void;
    /** A change has passed the barrier `ms` after it was announced. */
    onBarrier?(ms: number): void;
  };
}

interface Batch {
  readonly changes: ControlChange[];
  readonly askedMs: number;
  /** Whether anybody waits for the barrier. */
  waits: boolean;
  readonly passed: PromiseWithResolvers<void>;
}

/** Changes that are announced while a push is under way share the next push and its barrier. */
export function createPushes(parts: PushesParts) {
  const { control, clock, onPushed, pass, events } = parts;
  const batches: Batch[] = [];
  const retries = createRetryQueue(bounds.unpushedChangesMax);
  let running: Promise<void> | undefined;

  function batchFor(changes: readonly ControlChange[], waits: boolean): Batch {
    let batch = batches.at(-1);
    if (!batch || batch.changes.length + changes.length > bounds.changesPerPushMax) {
      batch = newBatch(clock);
      batches.push(batch);
    }
    batch.changes.push(...changes);
    batch.waits ||= waits;
    running ??= run();
    return batch;
  }

  async function run(): Promise<void> {
    // The changes that are announced in this turn share the first push.
    await null;
    for (let batch = batches.shift(); batch; batch = batches.shift()) await push(batch);
    running = undefined;
  }

  async function push({ changes, waits, askedMs, passed }: Batch): Promise<void> {
    try {
      const { seqs, view } = await control.push(changes);
      onPushed(view);
      if (!waits) return passed.resolve();
      // Not awaited: the next push need not wait for this barrier.
      void pass({ seq: seqs.last, view }).then(() => {
        events.onBarrier?.(clock.monotonicMs() - askedMs);
        passed.resolve();
      }, passed.reject);
    } catch (cause) {
      retries.keep(changes);
      passed.reject(cause);
      events.onPushFailed?.(cause);
    }
  }

  return {
    /** As `Fleet.announce`. */
    async announce(changes: readonly ControlChange[], { wait }: { readonly wait: boolean }): Promise<void> {
      const asked: Promise<void>[] = [];
      for (let from = 0; from < changes.length; from += bounds.changesPerPushMax) {
        const part = changes.slice(from, from + bounds.changesPerPushMax);
        asked.push(batchFor(part, wait).passed.promise);
      }
      if (wait) await Promise.all(asked);
    },
    /** Pushes again what could not be pushed, if nothing else is being pushed. */
    repeat(): void {
      if (running) return;
      const changes = retries.take(bounds.changesPerPushMax);
      if (changes.length > 0) batchFor(changes, false);
    },
    /** Resolves once nothing is being pushed. Never rejects. */
    async idle(): Promise<void> {
      while (running) await running;
    },
  };
}

function newBatch(clock: Clock): Batch {
  const passed = Promise.withResolvers<void>();
  // Nobody may be waiting for it.
  passed.promise.catch(() => {});
  return { changes: [], askedMs: clock.monotonicMs(), waits: false, passed };
}

/**
 * Changes whose push failed, until they are pushed again. To drop one is safe: its caller was told
 * that it failed, and cached copies end by themselves.
 */
function createRetryQueue(changesMax: number) {
  const kept = new Map<string, ControlChange>();
  return {
    /** Of one record only the newest version is kept. Past the bound the oldest is dropped. */
    keep(changes: readonly ControlChange[]): void {
      for (const change of changes) {
        const name = `${change.kind} ${change.id}`;
        const before = kept.get(name);
        kept.set(name, before && before.version > change.version ? before : change);
      }
      for (const name of kept.keys()) {
        if (kept.size <= changesMax) return;
        kept.delete(name);
      }
    },
    /** Takes out at most `max` changes, the oldest first. */
    take(max: number): ControlChange[] {
      const taken = [...kept].slice(0, max);
      for (const [name] of taken) kept.delete(name);
      return taken.map(([, change]) => change);
    },
  };
}
