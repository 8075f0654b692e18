import type { VirtualTime } from "../../harness/virtual-time.ts";

/** A key or a team as the simulated store holds it. */
export interface SimulatedRecord {
  readonly id: string;
  readonly version: number;
  /** A key that was replaced with an overlap: it is live until its new expiry. */
  readonly isReplaced?: boolean;
}

/**
 * Records with their whole history. A key is live at version 1. At version 2 it is revoked, or
 * replaced.
 */
export interface SimulatedRecords {
  find(id: string): SimulatedRecord;
  /** As a replica that lags by this time would answer. */
  findStale(id: string, lagMs: number): SimulatedRecord;
  set(id: string, version: number, facts?: Pick<SimulatedRecord, "isReplaced">): SimulatedRecord;
}

export function createSimulatedRecords(time: VirtualTime): SimulatedRecords {
  const histories = new Map<string, { readonly record: SimulatedRecord; readonly sinceMs: number }[]>();
  const historyOf = (id: string) => {
    const known = histories.get(id);
    if (known) return known;
    const created = [{ record: { id, version: 1 }, sinceMs: Number.NEGATIVE_INFINITY }];
    histories.set(id, created);
    return created;
  };
  return {
    find: (id) => historyOf(id).at(-1)!.record,
    findStale: (id, lagMs) => historyOf(id).findLast(({ sinceMs }) => sinceMs <= time.now() - lagMs)!.record,
    set(id, version, facts) {
      const record = { id, version, ...facts };
      historyOf(id).push({ record, sinceMs: time.now() });
      return record;
    },
  };
}
