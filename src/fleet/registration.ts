/**
 * The record of this instance in the control record: how it comes to be, how each heartbeat extends
 * the lease by it, and what becomes of its knowledge when the record is lost.
 */

import { bounds } from "../bounds.ts";
import { StartRefused } from "../refusal/start-refused.ts";
import type {
  ControlStore,
  ControlView,
  InstanceFacts,
  InstanceLimits,
  NumberedChange,
} from "./control-store.ts";
import type { Lease, SendTime } from "./lease.ts";

/** How an instance joins, what judges it, and what it knows by its record. */
export interface RegistrationParts {
  readonly control: ControlStore;
  /** Unique for ever, at every call. */
  readonly newId: () => string;
  readonly facts: InstanceFacts;
  /** How this instance counts now, for the others. Absent: they are told nothing of it. */
  readonly limits?: () => InstanceLimits;
  /**
   * Judges every registration, also a later one, before its lease counts. Words say why this
   * instance may not join; its record is then removed.
   */
  readonly mayJoin?: (view: ControlView, ownId: string) => string | undefined;
  /**
   * Raises the floors of changes that others or this process pushed, by ascending seq. Must do it
   * synchronously: the lease grows right after it. Where it throws, the lease does not grow.
   */
  readonly apply: (changes: readonly NumberedChange[]) => void;
  /** Forgets everything that may be out of date, also what is being read now. Synchronous. */
  readonly clear: () => void;
}

interface LeasedRegistrationParts extends RegistrationParts {
  readonly lease: Lease;
  /** Applies what the view of a heartbeat or registration says. Then the lease grows. */
  readonly takeView: (view: ControlView) => void;
  /** Registered under this id; the lease begins. */
  readonly onJoined: (id: string) => void;
  readonly events: { onLeaseTaken?(): void; onFenced?(): void };
}

/** What this instance is registered as, and what it knows by its record. */
export class Registration {
  readonly #parts: LeasedRegistrationParts;
  /** Under which this process registered or tried to. Others remove those that are forgotten. */
  readonly #ownIds = new Set<string>();
  #newestId: string | undefined;
  /** Undefined: not registered, so nothing may be admitted. */
  #ownId: string | undefined;
  /** The newest n that was seen of the record. */
  #ownN = 0;
  /** The `seq` up to which all changes are applied; undefined while nothing is registered. */
  #applied: number | undefined;
  #isOver = false;

  constructor(parts: LeasedRegistrationParts) {
    this.#parts = parts;
  }

  ownId(): string | undefined {
    return this.#ownId;
  }

  isOwn(id: string): boolean {
    return this.#ownIds.has(id);
  }

  /** Those of `ids` that this process registered earlier, and acts on no more. */
  formerAmong(ids: readonly string[]): string[] {
    return ids.filter((id) => id !== this.#newestId && this.#ownIds.has(id));
  }

  /**
   * Registers under a new id. Rejects with the error of the store; the record may then exist, and
   * is a former one once an attempt succeeds. Rejects with StartRefused where this instance may not
   * join, and removes the record, if possible.
   */
  async register(): Promise<void> {
    const { control, facts, lease, limits, mayJoin } = this.#parts;
    // A new id for every attempt: an earlier attempt whose answer was lost may have happened, and
    // its record must not look as if this instance had stood still.
    const id = this.#newOwnId();
    const sent = lease.sendTime();
    const view = await control.register(id, facts, limits?.());
    const words = mayJoin?.(view, id);
    if (!this.#isOver && words === undefined) return this.#begin(id, sent, view);
    // Where it can't be removed, it lapses by itself.
    await control.remove(id).catch(() => {});
    if (words !== undefined) throw new StartRefused(words);
  }

  /**
   * One heartbeat: acknowledges what is applied, applies what is new, and extends the lease. Where
   * the record is fenced, gone, or an older one of its own, it forgets everything and registers
   * anew.
   */
  async beat(): Promise<void> {
    const { control, lease, events } = this.#parts;
    const id = this.#ownId;
    const applied = this.#applied;
    if (id === undefined || applied === undefined) return await this.register();
    const sent = lease.sendTime();
    const limits = this.#parts.limits?.();
    const view = await control.beat(id, { ack: applied, nSeen: this.#ownN, ...(limits && { limits }) });
    if (this.#isOver) return;
    if (!view) {
      this.#forget();
      events.onFenced?.();
      return await this.register();
    }
    this.#ownN = nOf(view, id);
    // There is no await from here on: the lease grows only after all that the view says applies.
    this.#parts.takeView(view);
    this.#extend(sent);
  }

  /** Whether the view is not older than what is applied. */
  isNew(view: ControlView): boolean {
    return this.#applied !== undefined && view.seq >= this.#applied;
  }

  /**
   * Applies the changes of the view that are new, and were not pushed before. Where the view does
   * not reach back to all of them, everything known is forgotten. Returns whether there were any.
   */
  take(view: ControlView): boolean {
    const before = this.#applied;
    if (before === undefined || view.seq <= before) return false;
    const missed = view.recent.filter(({ seq }) => seq > before);
    if (missed.length < view.seq - before) this.#parts.clear();
    this.#parts.apply(missed.filter((change) => !isPushedAgain(change, view)));
    // Last, so that a change that could not be applied is never acknowledged.
    this.#applied = view.seq;
    return true;
  }

  /** Ends the lease, now and for ever. */
  end(): void {
    this.#isOver = true;
    this.#forget();
  }

  #newOwnId(): string {
    const id = this.#parts.newId();
    this.#newestId = id;
    this.#ownIds.add(id);
    const [oldest] = this.#ownIds;
    if (this.#ownIds.size > bounds.ownRegistrationsMax && oldest !== undefined) this.#ownIds.delete(oldest);
    return id;
  }

  /** There is no await in here: what was known is forgotten before the lease begins. */
  #begin(id: string, sent: SendTime, view: ControlView): void {
    this.#parts.clear();
    // Whatever is read from now on is at least as new.
    this.#applied = view.seq;
    this.#ownId = id;
    this.#ownN = nOf(view, id);
    this.#parts.onJoined(id);
    this.#parts.takeView(view);
    this.#extend(sent);
  }

  #extend(sent: SendTime): void {
    const { lease, events } = this.#parts;
    const wasValid = lease.isValid();
    lease.extend(sent);
    if (!wasValid) events.onLeaseTaken?.();
  }

  #forget(): void {
    this.#ownId = undefined;
    this.#parts.lease.lose();
    this.#applied = undefined;
    this.#parts.clear();
  }
}

/**
 * A push whose answer was lost is done twice. Each change of a key has a version of its own, and
 * its watchers are to be told once. An app or a team may be made and deleted again under one id.
 */
function isPushedAgain({ kind, id, version, seq }: NumberedChange, { recent }: ControlView): boolean {
  if (kind !== "key") return false;
  return recent.some((one) => one.seq < seq && one.kind === kind && one.id === id && one.version === version);
}

/** A record's n grows by its own heartbeats alone, and falls only with the whole database. */
function nOf({ leases }: ControlView, id: string): number {
  return leases.find((lease) => lease.id === id)?.n ?? 0;
}
