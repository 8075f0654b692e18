import { StartRefused } from "../refusal/start-refused.ts";
import type { AppliedChanges } from "./applied-changes.ts";
import type { ControlView } from "./control-store.ts";
import type { FleetParts } from "./fleet.ts";
import type { Lease, SendTime } from "./lease.ts";
import type { OwnRegistrations } from "./own-registrations.ts";

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

export interface RegistrationParts extends FleetParts {
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
    if (!held) events?.onHeld?.();
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
        events?.onFenced?.();
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
