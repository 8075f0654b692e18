import { AsyncLocalStorage } from "node:async_hooks";
import type { AuditEvent, PendingEvent } from "./audit-store.ts";

/** What an event says of a change, before it is known what becomes of it. */
export type ChangeFacts = Omit<AuditEvent, "id" | "timeMs" | "outcome" | "reason" | "count">;

/** What a change turns out to be about, and what exactly it is. */
export type ChangeSubject = Partial<Pick<AuditEvent, "teamId" | "target" | "detail">>;

const underWay = new AsyncLocalStorage<PendingChange>();

/**
 * Says what the change under way is about, where the request alone does not tell: a new key has its
 * id from Keyrun. Call it before the change is written. Does nothing outside of a change.
 */
export function noteSubject(subject: ChangeSubject): void {
  underWay.getStore()?.note(subject);
}

/** A change under way, and its event. */
export class PendingChange implements PendingEvent {
  readonly #facts: ChangeFacts & Pick<AuditEvent, "id" | "timeMs">;
  readonly #hasSteps: boolean;
  #subject: ChangeSubject = {};
  #writtenAs: AuditEvent["outcome"] | undefined;
  #isOver = false;

  constructor(
    facts: ChangeFacts & Pick<AuditEvent, "id" | "timeMs">,
    { hasSteps }: { readonly hasSteps: boolean },
  ) {
    this.#facts = facts;
    this.#hasSteps = hasSteps;
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

  note(subject: ChangeSubject): void {
    this.#subject = { ...this.#subject, ...subject };
  }

  run<T>(work: () => Promise<T>): Promise<T> {
    return underWay.run(this, work);
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
