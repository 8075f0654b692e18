import type { ControlView, LeaseRecord } from "./control-store.ts";
import type { Sightings } from "./sightings.ts";

/** The instances that may still act on what was known before one change. */
export interface WaitSet {
  /** Takes out those that acknowledged or are gone. A view from before the change is ignored. */
  take(view: ControlView): void;
  /** Takes out those whose leases are over by `nowMs`, and returns when the next one may be. */
  takeLapsed(nowMs: number): number | undefined;
  /** Notes what fencing one of them returned. */
  fenced(id: string, record: LeaseRecord | undefined): void;
  /** Those that are left, as they were at the push. */
  left(): readonly LeaseRecord[];
}

/**
 * Begins with every lease of the push's own view, whether it looks alive or not. `isOwn` are the
 * registrations of this process: it raised its own floors before the push.
 */
export function createWaitSet(
  pushed: { readonly seq: number; readonly view: ControlView },
  parts: { readonly sightings: Sightings; readonly isOwn: (id: string) => boolean },
): WaitSet {
  const { seq } = pushed;
  const { sightings, isOwn } = parts;
  // Seen no earlier than now: a lease that is extended after the push knows of the change.
  sightings.see(pushed.view);
  const waiting = new Map(
    pushed.view.leases.filter(({ id }) => !isOwn(id)).map((record) => [record.id, record]),
  );
  return {
    take(view) {
      if (view.seq < seq) return;
      const records = new Map(view.leases.map((record) => [record.id, record]));
      for (const id of waiting.keys()) {
        const record = records.get(id);
        if (!record || record.ack >= seq) waiting.delete(id);
      }
    },
    takeLapsed(nowMs) {
      let nextMs: number | undefined;
      for (const id of waiting.keys()) {
        const lapseMs = sightings.lapseTimeMs(id);
        if (lapseMs === undefined) continue;
        if (lapseMs <= nowMs) waiting.delete(id);
        else nextMs = Math.min(nextMs ?? lapseMs, lapseMs);
      }
      return nextMs;
    },
    fenced(id, record) {
      if (!record || record.ack >= seq) waiting.delete(id);
      else sightings.seeRecord(record);
    },
    left: () => [...waiting.values()],
  };
}
