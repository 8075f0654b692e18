/**
 * The share of this instance in each limit, for while Redis fails: who counts, and who takes over
 * the share of one that left.
 */

import type { Clock } from "../base/clock.ts";
import type { SharePlace } from "../limit/share.ts";
import type { ControlView, HandedShare, LeaseRecord } from "./control-store.ts";

export type Shares = ReturnType<typeof createShares>;

/**
 * Who shares the limits, by the views of the heartbeats. A slot is one share of the limits, which
 * several instances may have one after the other. Its number is the `order` of the first of them.
 * It counts while a view shows it as taken or vacant, and for `shareMs` after that. So every
 * instance counts a slot for as long as another one may still take it over.
 */
export function createShares(clock: Clock, shareMs: number) {
  const slots = new Map<number, Slot>();
  let own: { readonly id: string; readonly sinceMs: number } | undefined;
  let ownRecord: LeaseRecord | undefined;
  const counts = ({ goneMs }: Slot, nowMs: number) => goneMs === undefined || nowMs < goneMs + shareMs;

  /**
   * The place of `id`, which must be this instance's own. A share that nobody has any more counts
   * for another `shareMs`, because requests that were admitted by it are still in the window of the
   * limit. An instance that joined less than `shareMs` ago has a place only if it took over a
   * share.
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
