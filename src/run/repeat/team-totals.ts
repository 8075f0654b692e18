import type { Clock } from "../../base/clock.ts";
import { runBounds } from "../run-bounds.ts";
import type { RecordTotals, RunRecordStore } from "./run-record-store.ts";

/** The totals of one team, kept in memory. */
export interface TeamTotals {
  /** Resolves once they are counted. Rejects where the store can't count. */
  readonly known: Promise<void>;
  /** The totals at this moment. Only once they are known. */
  now(): RecordTotals;
  /** Counts so much as there. Only once the totals are known. */
  add(totals: RecordTotals): void;
  /** Counts so much as gone. */
  subtract(totals: RecordTotals): void;
  /**
   * Counts again what other instances have changed, unless that was done within `recountMsMin`.
   * Resolves with whether it did. Never rejects: a count that fails leaves the totals as they are.
   */
  recount(): Promise<boolean>;
}

/**
 * Counts the team's records in the store once. With `clock`, other instances write to the store
 * too: it is then counted again in the background after each `recountShare` of a bound that was
 * added here. So a team never has much more than its bounds, whatever the others add.
 */
export function createTeamTotals(parts: {
  readonly count: RunRecordStore["totals"];
  readonly teamId: string;
  readonly boundsOf: () => RecordTotals;
  readonly clock: Clock | undefined;
}): TeamTotals {
  const { count, teamId, boundsOf, clock } = parts;
  let totals = nothing;
  let isKnown = false;
  let added = nothing;
  let countedMs = clock?.monotonicMs() ?? 0;
  let recounting: Promise<boolean> | undefined;
  const known = count(teamId).then((counted) => {
    totals = { ...counted };
    isKnown = true;
  });

  /** `unwritten` was added just now, so the store can't have it yet. */
  async function countAgain(unwritten: RecordTotals): Promise<boolean> {
    added = unwritten;
    try {
      const counted = await count(teamId);
      // What was added meanwhile is counted a second time rather than not at all.
      totals = sum(counted, added);
    } catch {
      return false;
    } finally {
      countedMs = clock?.monotonicMs() ?? 0;
      recounting = undefined;
    }
    return true;
  }

  function recount(unwritten: RecordTotals): Promise<boolean> {
    recounting ??= countAgain(unwritten);
    return recounting;
  }

  return {
    known,
    now: () => totals,
    add(more) {
      totals = sum(totals, more);
      added = sum(added, more);
      const { records, textBytes } = boundsOf();
      const isMuch =
        added.records * runBounds.recountShare >= records ||
        added.textBytes * runBounds.recountShare >= textBytes;
      if (clock && isMuch) void recount(more);
    },
    subtract({ records, textBytes }) {
      if (!isKnown) return;
      totals = {
        records: Math.max(0, totals.records - records),
        textBytes: Math.max(0, totals.textBytes - textBytes),
      };
    },
    async recount() {
      if (!clock || clock.monotonicMs() - countedMs < runBounds.recountMsMin) return false;
      return recount(nothing);
    },
  };
}

const nothing: RecordTotals = { records: 0, textBytes: 0 };

function sum(one: RecordTotals, other: RecordTotals): RecordTotals {
  return { records: one.records + other.records, textBytes: one.textBytes + other.textBytes };
}
