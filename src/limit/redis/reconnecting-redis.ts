import type { Clock } from "../../base/clock.ts";
import { bounds } from "../../bounds.ts";
import { type Batches, createBatches } from "./batches.ts";
import type { OpenSharedLogs, SharedLogs } from "./shared-logs.ts";
import type { LimitTimers } from "./timers.ts";

/**
 * A connection to the shared logs that is dropped at the first trouble, and opened anew, once in
 * `redisReopenMs` at most. Rejects as `open` does where the first one can't be opened.
 */
export async function createReconnectingRedis(parts: {
  readonly open: OpenSharedLogs;
  readonly clock: Clock;
  readonly timers: LimitTimers;
  /** Called when the connection is dropped, before its spends end without an answer. */
  readonly onDropped: (cause: unknown) => void;
  /** Called when an attempt to open a connection anew has failed. */
  readonly onReopenFailed: (cause: unknown) => void;
  /** Called when there is one again, before anything is spent on it. */
  readonly onReturned: () => void;
}) {
  const { open, clock, timers } = parts;
  let current: { readonly logs: SharedLogs; readonly batches: Batches } | undefined;
  let isClosed = false;
  let openedMs = 0;

  async function connect(): Promise<void> {
    openedMs = clock.monotonicMs();
    let opened: typeof current;
    const failed = (cause: unknown) => {
      if (opened === undefined || opened !== current) return;
      end(() => parts.onDropped(cause));
      reopenLater();
    };
    const logs = await open(failed);
    opened = { logs, batches: createBatches(logs, { clock, timers, failed }) };
    if (isClosed) logs.close();
    else current = opened;
  }

  /** From the first step on, nothing more is spent on the connection. */
  function end(onDropped: () => void): void {
    const dropped = current;
    current = undefined;
    onDropped();
    dropped?.logs.close();
    dropped?.batches.giveUp();
  }

  function reopenLater(): void {
    if (isClosed) return;
    const waitMs = Math.max(0, openedMs + bounds.redisReopenMs - clock.monotonicMs());
    timers.after(waitMs, () => void reopen());
  }

  async function reopen(): Promise<void> {
    if (isClosed) return;
    try {
      await connect();
    } catch (cause) {
      parts.onReopenFailed(cause);
      return reopenLater();
    }
    if (current) parts.onReturned();
  }

  await connect();
  return {
    /** Undefined while there is no connection of use. */
    batches: () => current?.batches,
    /** Ends the connection, and its spends without an answer. */
    close() {
      isClosed = true;
      end(() => {});
    },
  };
}
