import type { ControlView, LeaseRecord } from "./control-store.ts";
import type { Sightings } from "./sightings.ts";

/** The instances that may still act on what was known before one change. */
export interface WaitSet {
  /** Takes out those that acknowledged or are gone. A view from before the change is ignored. */
  take(view: ControlView): void;
  /** Takes out those whose leases are over by `nowMs`, and returns their records of the push. */
  takeLapsed(nowMs: number): readonly LeaseRecord[];
  /** When the next lease is over; undefined where none is left. */
  nextLapseMs(): number | undefined;
}

/**
 * Begins with every lease of the push's own view, whether it looks alive or not. `isOwn` are the
 * registrations of this process: it raised its own floors before the push.
 *
 * Only leases from before the push matter, and they are over the time of a lapse after it at the
 * latest. A heartbeat that came after the push was answered with the change, so the lease that it
 * extends knows of it. That is why nobody has to be fenced, however long it does not acknowledge.
 */
export function createWaitSet(
  { seq, view: pushed }: { readonly seq: number; readonly view: ControlView },
  { sightings, isOwn }: { readonly sightings: Sightings; readonly isOwn: (id: string) => boolean },
): WaitSet {
  sightings.see(pushed);
  const waiting = new Map(
    pushed.leases.flatMap((record) => {
      const lapseMs = sightings.lapseTimeMs(record.id);
      return isOwn(record.id) || lapseMs === undefined ? [] : [[record.id, { record, lapseMs }]];
    }),
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
      const lapsed = [...waiting.values()].filter(({ lapseMs }) => lapseMs <= nowMs);
      for (const { record } of lapsed) waiting.delete(record.id);
      return lapsed.map(({ record }) => record);
    },
    nextLapseMs() {
      if (waiting.size === 0) return undefined;
      return Math.min(...[...waiting.values()].map(({ lapseMs }) => lapseMs));
    },
  };
}
