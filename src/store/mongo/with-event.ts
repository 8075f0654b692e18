import type { AuditStore, PendingEvent } from "../../audit/audit-store.ts";
import { pendingEvent } from "../../audit/pending-change.ts";
import type { ReadConcernOptions } from "./connection.ts";

/**
 * Writes a change and its audit event. Without transactions MongoDB can't write both at once, so
 * the event is written first, with the outcome "unknown", and gets its outcome later. If the event
 * can't be written, the change is not made. Every method whose change is audited calls this, and a
 * test finds one that does not.
 *
 * `asked` checks whether the store is as the method would make it already, and returns the answer
 * of the method then. Such a repeat writes neither an event nor a change: another call could come
 * in between, and the write would change something after all. The check is a linearizable read, so
 * a failover can't take back what it has seen.
 */
export type WithEvent = <T>(
  write: () => Promise<T>,
  asked?: (read: ReadConcernOptions) => Promise<{ readonly answer: T } | undefined>,
) => Promise<T>;

export function createWithEvent(
  audit: Pick<AuditStore, "write">,
  linearizable: ReadConcernOptions,
): WithEvent {
  const begun = new WeakMap<PendingEvent, Promise<void>>();

  async function writeEvent(event: PendingEvent): Promise<void> {
    try {
      await audit.write([{ ...event.record(), outcome: "unknown" }]);
      event.written("unknown");
    } finally {
      begun.delete(event);
    }
  }

  return async (write, asked) => {
    const event = pendingEvent();
    if (!event) return write();
    const same = await asked?.(linearizable);
    if (same) return same.answer;
    // Once, also where several changes of one event begin at the same time.
    const writing = begun.get(event) ?? writeEvent(event);
    begun.set(event, writing);
    await writing;
    return write();
  };
}
