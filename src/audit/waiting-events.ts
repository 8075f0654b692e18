import { setImmediate } from "node:timers/promises";
import { auditBounds } from "./audit-bounds.ts";
import type { AuditEvent, AuditStore } from "./audit-store.ts";

/** Events that nobody waits for. */
export interface WaitingEvents {
  /** Takes the event, to be written soon. Of one id, the newest counts. */
  add(event: AuditEvent): void;
  /** Resolves when what was added before is written, or an attempt has failed. */
  flush(): Promise<void>;
  /** Writes what waits for the last time. */
  close(): Promise<void>;
}

export interface WaitingEventsParts {
  readonly store: Pick<AuditStore, "write">;
  /** Called when a write has failed. The events are kept for the next one. */
  readonly onWriteFailed: (cause: unknown) => void;
  /** Called with an event for which there is no room. */
  readonly onDropped: (event: AuditEvent) => void;
  readonly retryMs?: number;
}

/** Writes events in batches, one after the other, and again if a write failed. */
export function createWaitingEvents(parts: WaitingEventsParts): WaitingEvents {
  const { store, retryMs = auditBounds.retryMs } = parts;
  const waiting = new Map<string, AuditEvent>();
  let writing: Promise<void> | undefined;
  let retry: NodeJS.Timeout | undefined;

  /** Ends with the last event or with the first failure. */
  async function writeAll(): Promise<void> {
    clearTimeout(retry);
    // After the answers that are ready, and then for all of them at once.
    await setImmediate();
    while (waiting.size > 0) {
      const batch = [...waiting.values()].slice(0, auditBounds.writtenAtOnceMax);
      try {
        await store.write(batch);
      } catch (cause) {
        parts.onWriteFailed(cause);
        retry = setTimeout(write, retryMs).unref();
        return;
      }
      for (const event of batch) {
        // What has come meanwhile is newer.
        if (waiting.get(event.id) === event) waiting.delete(event.id);
      }
    }
  }

  function write(): Promise<void> {
    writing ??= writeAll().finally(() => {
      writing = undefined;
    });
    return writing;
  }

  /** A write that is under way may have begun before the last event was added. */
  async function flush(): Promise<void> {
    if (writing) await writing;
    else if (waiting.size > 0) await write();
  }

  return {
    add(event) {
      if (waiting.size >= auditBounds.waitingEventsMax && !waiting.has(event.id)) {
        parts.onDropped(event);
        return;
      }
      waiting.set(event.id, event);
      void write();
    },
    flush,
    async close() {
      await flush();
      clearTimeout(retry);
    },
  };
}
