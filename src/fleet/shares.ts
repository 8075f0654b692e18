/**
 * The share of this instance in each limit, for while Redis fails: who counts, and who takes over
 * the share of one that left.
 */

import type { Clock } from "../base/clock.ts";
import type { SharePlace } from "../limit/share.ts";
import type { ControlView, HandedShare, LeaseRecord } from "./control-store.ts";

export type Shares = ReturnType<typeof createShares>;

/**
 * Who shares the limits, by what the heartbeats showed. A slot is a share of the limits over the
 * time of all instances that had it, one after the other. It is counted from the `order` of the
 * first one, as long as a view shows that it is taken or vacant, and `shareMs` after that. So no
 * instance stops counting a slot that another one may still take over.
 */
export function createShares(clock: Clock, shareMs: number) {
  const slots = new Map<number, Slot>();
  let own: { readonly id: string; readonly sinceMs: number } | undefined;
  let ownRecord: LeaseRecord | undefined;
  const counts = ({ goneMs }: Slot, nowMs: number) => goneMs === undefined || nowMs < goneMs + shareMs;

  /**
   * The place of `id`, which must be this instance's own. A share that nobody has any more counts
   * for `shareMs` more: what was admitted by it lately is still in the window of the limit. For
   * the same time after it joined, an instance has no place, except by a share that it took over.
   */
  function placeOf(id: string | undefined): SharePlace | undefined {
    const nowMs = clock.monotonicMs();
    if (own === undefined || own.id !== id || ownRecord?.id !== id) return undefined;
    const counted = [...slots].filter(([, slot]) => counts(slot, nowMs));
    const ownSlot = slotOf(ownRecord);
    const seen = { place: counted.filter(([slot]) => slot < ownSlot).length, of: counted.length };
    if (nowMs >= own.sinceMs + shareMs) return seen;
    const { share } = ownRecord;
    // Its former owner may have counted instances that had left before this one joined.
    return share && { place: Math.max(seen.place, share.place), of: Math.max(seen.of, share.of) };
  }

  return {
    /** Notes who is live, and which shares are vacant, in the view of an own step. */
    see({ leases, vacant = [] }: ControlView): void {
      const nowMs = clock.monotonicMs();
      ownRecord = leases.find(({ id }) => id === own?.id);
      const vacantSlots = new Set(vacant.map(({ slot }) => slot));
      const shown = new Set([...leases.map(slotOf), ...vacantSlots]);
      for (const slot of shown) {
        const vacantMs = vacantSlots.has(slot) ? (slots.get(slot)?.vacantMs ?? nowMs) : undefined;
        slots.set(slot, { vacantMs, goneMs: undefined });
      }
      // It never had the share of its own order.
      for (const { order, share } of leases) if (share) slots.delete(order);
      for (const [number, slot] of slots) {
        if (!shown.has(number)) slot.goneMs ??= nowMs;
        if (!counts(slot, nowMs)) slots.delete(number);
      }
    },
    /** This instance registered under `id` just now. */
    joined(id: string): void {
      own = { id, sinceMs: clock.monotonicMs() };
    },
    placeOf,
    /** The share of `id`, for the instance that comes after this one; undefined: it has none. */
    shareOf(id: string | undefined): HandedShare | undefined {
      const sharePlace = placeOf(id);
      return sharePlace && ownRecord && { slot: slotOf(ownRecord), ...sharePlace };
    },
    /** Slots that have been vacant for `shareMs`. Nobody comes for them any more. */
    longVacant(): number[] {
      const nowMs = clock.monotonicMs();
      return [...slots].flatMap(([number, { vacantMs = nowMs }]) =>
        nowMs >= vacantMs + shareMs ? [number] : [],
      );
    },
  };
}

interface Slot {
  /** Since when it is vacant. */
  readonly vacantMs: number | undefined;
  /** Since when no view shows it. */
  goneMs: number | undefined;
}

function slotOf({ order, share }: LeaseRecord): number {
  return share?.slot ?? order;
}
