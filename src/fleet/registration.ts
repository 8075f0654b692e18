// The record of this instance in the control record: how it comes to be, how each heartbeat extends
// the lease by it, and what becomes of its knowledge when the record is lost.

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

export type Registration = ReturnType<typeof createRegistration>;

export function createRegistration(
  parts: RegistrationParts & {
    readonly lease: Lease;
    /** Applies what the view of a heartbeat or registration says. Then the lease grows. */
    readonly takeView: (view: ControlView) => void;
    /** Registered under this id; the lease begins. */
    readonly onJoined: (id: string) => void;
    readonly events: { onLeaseTaken?(): void; onFenced?(): void };
  },
) {
  const { control, facts, lease, mayJoin, events } = parts;
  /** Under which this process registered or tried to. Others remove those that are forgotten. */
  const ownIds = new Set<string>();
  let newestId: string | undefined;
  /** Undefined: not registered, so nothing may be admitted. */
  let ownId: string | undefined;
  /** The newest n that was seen of the record. */
  let ownN = 0;
  /** The `seq` up to which all changes are applied; undefined while nothing is registered. */
  let applied: number | undefined;
  let isOver = false;

  function newOwnId(): string {
    const id = parts.newId();
    newestId = id;
    ownIds.add(id);
    const [oldest] = ownIds;
    if (ownIds.size > bounds.ownRegistrationsMax && oldest !== undefined) ownIds.delete(oldest);
    return id;
  }

  function extend(sent: SendTime): void {
    const wasValid = lease.isValid();
    lease.extend(sent);
    if (!wasValid) events.onLeaseTaken?.();
  }

  /** There is no await in here: what was known is forgotten before the lease begins. */
  function begin(id: string, sent: SendTime, view: ControlView): void {
    parts.clear();
    // Whatever is read from now on is at least as new.
    applied = view.seq;
    ownId = id;
    ownN = nOf(view, id);
    parts.onJoined(id);
    parts.takeView(view);
    extend(sent);
  }

  function forget(): void {
    ownId = undefined;
    lease.lose();
    applied = undefined;
    parts.clear();
  }

  /**
   * Registers under a new id. Rejects with the error of the store; the record may then exist, and
   * is a former one once an attempt succeeds. Rejects with StartRefused where this instance may not
   * join, and removes the record, if possible.
   */
  async function register(): Promise<void> {
    // A new id for every attempt: an earlier attempt whose answer was lost may have happened, and
    // its record must not look as if this instance had stood still.
    const id = newOwnId();
    const sent = lease.sendTime();
    const view = await control.register(id, facts, parts.limits?.());
    const words = mayJoin?.(view, id);
    if (!isOver && words === undefined) return begin(id, sent, view);
    // Where it can't be removed, it lapses by itself.
    await control.remove(id).catch(() => {});
    if (words !== undefined) throw new StartRefused(words);
  }

  return {
    ownId: () => ownId,
    isOwn: (id: string) => ownIds.has(id),
    /** Those of `ids` that this process registered earlier, and acts on no more. */
    formerAmong: (ids: readonly string[]) => ids.filter((id) => id !== newestId && ownIds.has(id)),
    register,
    /**
     * One heartbeat: acknowledges what is applied, applies what is new, and extends the lease.
     * Where the record is gone, or an older one of its own, it forgets everything and
     * registers anew.
     */
    async beat(): Promise<void> {
      const id = ownId;
      if (id === undefined || applied === undefined) return await register();
      const sent = lease.sendTime();
      const limits = parts.limits?.();
      const view = await control.beat(id, { ack: applied, nSeen: ownN, ...(limits && { limits }) });
      if (isOver) return;
      if (!view) {
        forget();
        events.onFenced?.();
        return await register();
      }
      ownN = nOf(view, id);
      // There is no await from here on: the lease grows only after all that the view says applies.
      parts.takeView(view);
      extend(sent);
    },
    /** Whether the view is not older than what is applied. */
    isNew: (view: ControlView) => applied !== undefined && view.seq >= applied,
    /**
     * Applies the changes of the view that are new. Where the view does not reach back to all of
     * them, everything known is forgotten. Returns whether there were any.
     */
    take(view: ControlView): boolean {
      const before = applied;
      if (before === undefined || view.seq <= before) return false;
      const missed = view.recent.filter(({ seq }) => seq > before);
      if (missed.length < view.seq - before) parts.clear();
      parts.apply(missed);
      // Last, so that a change that could not be applied is never acknowledged.
      applied = view.seq;
      return true;
    },
    /** Ends the lease, now and for ever. */
    end(): void {
      isOver = true;
      forget();
    },
  };
}

/** A record's n grows by its own heartbeats alone, and falls only with the whole database. */
function nOf({ leases }: ControlView, id: string): number {
  return leases.find((lease) => lease.id === id)?.n ?? 0;
}
