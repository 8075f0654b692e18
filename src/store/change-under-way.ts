import { AsyncLocalStorage } from "node:async_hooks";
import type { PendingEvent } from "../audit/audit-store.ts";

const underWay = new AsyncLocalStorage<PendingEvent>();

/** Does the work as the change of this event, in all that it awaits. */
export function whileChanging<T>(event: PendingEvent, work: () => Promise<T>): Promise<T> {
  return underWay.run(event, work);
}

/** The event that the next change of the store has to write; undefined if there is none. */
export function pendingEvent(): PendingEvent | undefined {
  const event = underWay.getStore();
  return event?.isDue ? event : undefined;
}
