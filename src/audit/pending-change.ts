/**
 * The audited change that the current request makes. It is kept in the asynchronous context, which
 * holds nothing else, so that the store can write its event with the change. As an argument it
 * would go through every method of the ports that changes something, in both stores, and through
 * all of their callers. A caller that forgets it would make a change without an event.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import type { ChangeSubject } from "../auth/principal.ts";
import type { AuditEvent, PendingEvent } from "./audit-store.ts";

/** What an event says of a change, before it is known what becomes of it. */
export type ChangeFacts = Omit<AuditEvent, "id" | "timeMs" | "outcome" | "reason" | "count">;

const underWay = new AsyncLocalStorage<PendingEvent>();

/**
 * Does the work as the change of this event, in all that it awaits. No change that the work makes
 * in the store is without the event: while it is due, the store writes it once with the first
 * change, in the same transaction, or before it, as unknown. Where the event can't be written, that
 * change is not made: the store refuses it with UNAVAILABLE or STORE_FULL. Work that changes
 * nothing in the store writes no event.
 */
export function whileChanging<T>(event: PendingEvent, work: () => Promise<T>): Promise<T> {
  return underWay.run(event, work);
}

/** The event that the next change of the store has to write; undefined if there is none. */
export function pendingEvent(): PendingEvent | undefined {
  const event = underWay.getStore();
  return event?.isDue ? event : undefined;
}

/** A change under way, and its event. */
export class PendingChange implements PendingEvent {
  readonly #facts: ChangeFacts & Pick<AuditEvent, "id" | "timeMs">;
  readonly #hasSteps: boolean;
  readonly #subject: ChangeSubject;
  #writtenAs: AuditEvent["outcome"] | undefined;
  #isOver = false;

  constructor(
    facts: ChangeFacts & Pick<AuditEvent, "id" | "timeMs">,
    { hasSteps, subject }: { readonly hasSteps: boolean; readonly subject: ChangeSubject },
  ) {
    this.#facts = facts;
    this.#hasSteps = hasSteps;
    this.#subject = subject;
  }

  get isDue(): boolean {
    return this.#writtenAs === undefined && !this.#isOver;
  }

  /** As what the store has the event; undefined if it has not. */
  get writtenAs(): AuditEvent["outcome"] | undefined {
    return this.#writtenAs;
  }

  /** After the first of several steps, nobody knows yet what becomes of the change. */
  record(): AuditEvent {
    return this.as(this.#hasSteps ? "unknown" : "done");
  }

  written(outcome: AuditEvent["outcome"]): void {
    this.#writtenAs = outcome;
  }

  /** No write that comes later belongs to the change. */
  end(): void {
    this.#isOver = true;
  }

  /** A refused attempt is about what the request named, since nothing else was made. */
  as(outcome: AuditEvent["outcome"], reason = ""): AuditEvent {
    const subject = outcome === "refused" ? {} : this.#subject;
    return { ...this.#facts, ...subject, outcome, reason, count: 1 };
  }
}
