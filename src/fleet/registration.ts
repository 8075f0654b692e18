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

/** This instance's record in the control record. */
export interface Registration {
  /** Undefined: not registered, so nothing may be admitted. */
  ownId(): string | undefined;
  /**
   * Registers under a new id. Rejects with the error of the store; the record may then exist, and
   * is a former one once an attempt succeeds. Rejects with StartRefused where this instance may not
   * join, and removes the record, if possible.
   */
  register(): Promise<void>;
  /**
   * One heartbeat: acknowledges what is applied, applies what is new, and extends the lease. Where
   * the record is fenced, gone, or an older one of its own, it forgets everything and registers
   * anew.
   */
  beat(): Promise<void>;
  /** Holds no more, now and for ever. */
  end(): void;
}

/** How an instance joins, and what judges it. */
export interface JoiningParts {
  readonly control: ControlStore;
  readonly facts: InstanceFacts;
  /** How this instance counts now, for the others. Absent: they are told nothing of it. */
  readonly limits?: () => InstanceLimits;
  /**
   * Judges every registration, also a later one, before its lease counts. Words say why this
   * instance may not join; its record is then removed.
   */
  readonly mayJoin?: (view: ControlView, ownId: string) => string | undefined;
}

interface RegistrationParts extends JoiningParts {
  readonly events: { onHeld?(): void; onFenced?(): void };
  readonly lease: Lease;
  readonly applied: AppliedChanges;
  readonly registrations: OwnRegistrations;
  /** Applies what the view of a heartbeat or registration says. The lease grows right after it. */
  readonly takeView: (view: ControlView) => void;
  /** Registered under this id; the lease begins. */
  readonly onJoined: (id: string) => void;
}

export function createRegistration(parts: RegistrationParts): Registration {
  const { control, facts, lease, applied, registrations, mayJoin, events } = parts;
  let ownId: string | undefined;
  /** The newest n that was seen of the record. */
  let ownN = 0;
  let isOver = false;

  function limitsNow() {
    const limits = parts.limits?.();
    return limits && { limits };
  }

  function extend(sent: SendTime): void {
    const held = lease.holds();
    lease.extend(sent);
    if (!held) events.onHeld?.();
  }

  /** There is no await in here: what was known is forgotten before the lease begins. */
  function begin(id: string, sent: SendTime, view: ControlView): void {
    applied.restart(view.seq);
    ownId = id;
    ownN = nOf(view, id);
    parts.onJoined(id);
    parts.takeView(view);
    extend(sent);
  }

  function forget(): void {
    ownId = undefined;
    lease.lose();
    applied.forget();
  }

  async function register(): Promise<void> {
    // A new id for every attempt: an earlier attempt whose answer was lost may have happened, and
    // its record must not look as if this instance had stood still.
    const id = registrations.next();
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
    register,
    async beat() {
      const id = ownId;
      const seq = applied.seq();
      if (id === undefined || seq === undefined) return await register();
      const sent = lease.sendTime();
      const view = await control.beat(id, { ack: seq, nSeen: ownN, ...limitsNow() });
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
    end() {
      isOver = true;
      forget();
    },
  };
}

/** A record's n grows by its own heartbeats alone, and falls only with the whole database. */
function nOf({ leases }: ControlView, id: string): number {
  return leases.find((lease) => lease.id === id)?.n ?? 0;
}

/** The ids under which this process registered or tried to. */
export interface OwnRegistrations {
  /** A new id that becomes the current one, and its predecessor a former one. */
  next(): string;
  has(id: string): boolean;
  /** Those of `ids` that this process registered earlier, and acts on no more. */
  formerAmong(ids: readonly string[]): string[];
}

/** The oldest are forgotten past a bound; other instances then remove their records. */
export function createOwnRegistrations(newId: () => string): OwnRegistrations {
  const ids = new Set<string>();
  let current: string | undefined;
  return {
    next() {
      current = newId();
      ids.add(current);
      const [oldest] = ids;
      if (ids.size > bounds.ownRegistrationsMax && oldest !== undefined) ids.delete(oldest);
      return current;
    },
    has: (id) => ids.has(id),
    formerAmong: (among) => among.filter((id) => id !== current && ids.has(id)),
  };
}

/** Up to which change this instance acts on all of them. */
interface AppliedChanges {
  /** The `seq` to acknowledge; undefined before the first `restart` and after `forget`. */
  seq(): number | undefined;
  /** Forgets what was known: whatever is read from now on is at least as new as `seq`. */
  restart(seq: number): void;
  /** Forgets what was known; views change nothing until the next `restart`. */
  forget(): void;
  /**
   * Applies the changes of the view that are new. Where the view does not reach back to all of
   * them, everything known is forgotten. Returns whether there were any.
   */
  take(view: ControlView): boolean;
}

export function createAppliedChanges(parts: {
  readonly apply: (changes: readonly NumberedChange[]) => void;
  readonly clear: () => void;
}): AppliedChanges {
  const { apply, clear } = parts;
  let applied: number | undefined;
  return {
    seq: () => applied,
    restart(seq) {
      clear();
      applied = seq;
    },
    forget() {
      applied = undefined;
      clear();
    },
    take(view) {
      const before = applied;
      if (before === undefined || view.seq <= before) return false;
      const missed = view.recent.filter(({ seq }) => seq > before);
      if (missed.length < view.seq - before) clear();
      apply(missed);
      // Last, so that a change that could not be applied is never acknowledged.
      applied = view.seq;
      return true;
    },
  };
}
