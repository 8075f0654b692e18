import type { AuditStore, PendingEvent } from "../../audit/audit-store.ts";
import { pendingEvent } from "../../audit/pending-change.ts";
import type { ReadConcernOptions } from "./connection.ts";

/**
 * Makes a change of the store, and keeps it not without the event of the change under way. MongoDB
 * without transactions can't write both at once, so the event is written first, as unknown: the
 * audit log says later what became of it. Where the event can't be written, nothing is changed.
 * Every method that changes what an event may tell does its work in here, and a test finds one that
 * does not.
 *
 * `asked` looks whether what the method is asked for is so already, and returns what the method
 * then answers. Such a repeat has no event and no write: another call could come in between, and
 * the write would change something after all. The look reads what every acknowledged write has
 * left, and nothing that a failover could take back.
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
