import type { Clock } from "../../base/clock.ts";
import { type CallBatches, createCallBatches } from "./call-batches.ts";
import type { LimitTimers } from "./limit-timers.ts";
import type { OpenSharedLogs } from "./shared-logs.ts";

/** A connection to the shared logs that is dropped at the first trouble, and opened anew. */
export interface KeptConnection {
  /** Undefined while there is no connection of use. */
  batches(): CallBatches | undefined;
  /** Spenders that wait are told that no answer comes. */
  close(): void;
}

export interface KeptConnectionParts {
  readonly open: OpenSharedLogs;
  readonly clock: Clock;
  readonly timers: LimitTimers;
  /** How long a call may take. */
  readonly callMsMax: number;
  /** The least time between the beginnings of two attempts to open a connection. */
  readonly reopenMs: number;
  /** Called when the connection is dropped, before its spenders are told that no answer comes. */
  readonly onDropped: (cause: unknown) => void;
  /** Called when an attempt to open a connection anew has failed. */
  readonly onReopenFailed: (cause: unknown) => void;
  /** Called when there is one again, before anything is spent on it. */
  readonly onReturned: () => void;
}

/** Opens the first connection. Rejects as `open` does where that fails. */
export async function keepConnection(parts: KeptConnectionParts): Promise<KeptConnection> {
  const { clock, timers, reopenMs } = parts;
  let current: Connection | undefined;
  let isClosed = false;
  let openedMs = 0;

  async function connect(): Promise<void> {
    openedMs = clock.monotonicMs();
    const opened = await openConnection(parts, (failed, cause) => {
      if (failed === current) drop(cause);
    });
    if (isClosed) opened.drop();
    else current = opened;
  }

  function drop(cause: unknown): void {
    const dropped = current;
    current = undefined;
    parts.onDropped(cause);
    dropped?.drop();
    reopenLater();
  }

  function reopenLater(): void {
    if (isClosed) return;
    const waitMs = Math.max(0, openedMs + reopenMs - clock.monotonicMs());
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
    batches: () => current?.batches,
    close() {
      isClosed = true;
      const dropped = current;
      current = undefined;
      dropped?.drop();
    },
  };
}

interface Connection {
  readonly batches: CallBatches;
  /** Closes it, and tells the spenders that wait. */
  drop(): void;
}

/** `failed` is called with the connection when it is of no more use. */
async function openConnection(
  { open, clock, timers, callMsMax }: KeptConnectionParts,
  failed: (connection: Connection, cause: unknown) => void,
): Promise<Connection> {
  let opened: Connection | undefined;
  let early: { readonly cause: unknown } | undefined;
  const onFailed = (cause: unknown) => {
    if (opened) failed(opened, cause);
    else early = { cause };
  };
  const logs = await open(onFailed);
  if (early) {
    logs.close();
    throw early.cause;
  }
  const batches = createCallBatches(logs, { clock, timers, callMsMax, failed: onFailed });
  opened = {
    batches,
    drop() {
      logs.close();
      batches.giveUp();
    },
  };
  return opened;
}
