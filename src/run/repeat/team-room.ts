import { runBounds } from "../run-bounds.ts";
import type { RecordTotals, RunRecordStore } from "./run-record-store.ts";

/**
 * Keeps each team within its bounds: so many records, and so many bytes of texts. The totals of a
 * team are counted in the store once, and then kept in memory.
 */
export interface TeamRoom {
  /**
   * Makes room for one more record, and counts it. Returns false where there is no room: the team
   * has `recordsMax` records, and none was created at `createdUntilMs` or before.
   */
  takeRecord(teamId: string, room: { recordsMax: number; createdUntilMs: number }): Promise<boolean>;
  /** A record was counted, but is not there. */
  giveRecord(teamId: string): void;
  /** Makes room for a text, by removing older ones, and counts it. */
  takeText(teamId: string, bytes: number): Promise<void>;
  /** So much was removed for another reason. */
  removed(teamId: string, totals: RecordTotals): void;
  /** The totals are in doubt, so they are counted again when they are needed. */
  forget(teamId: string): void;
}

interface Totals {
  records: number;
  textBytes: number;
}

interface Counted {
  readonly counting: Promise<Totals>;
  /** Undefined until they are counted. */
  totals: Totals | undefined;
}

export function createTeamRoom({
  store,
  textsBytesMax = runBounds.keptTextsBytesMax,
}: {
  store: Pick<RunRecordStore, "totals" | "deleteOldest" | "dropTexts">;
  textsBytesMax?: number;
}): TeamRoom {
  const teams = new Map<string, Counted>();

  function totalsOf(teamId: string): Promise<Totals> {
    const known = teams.get(teamId);
    if (known) return known.counting;
    const team: Counted = {
      counting: store.totals(teamId).then((totals) => ({ ...totals })),
      totals: undefined,
    };
    teams.set(teamId, team);
    for (const oldest of teams.keys()) {
      if (teams.size <= runBounds.recordTotalsMax) break;
      teams.delete(oldest);
    }
    team.counting.then(
      (totals) => {
        team.totals = totals;
      },
      () => {
        if (teams.get(teamId) === team) teams.delete(teamId);
      },
    );
    return team.counting;
  }

  function subtract(totals: Totals | undefined, { records, textBytes }: RecordTotals): void {
    if (!totals) return;
    totals.records = Math.max(0, totals.records - records);
    totals.textBytes = Math.max(0, totals.textBytes - textBytes);
  }

  return {
    async takeRecord(teamId, { recordsMax, createdUntilMs }) {
      const totals = await totalsOf(teamId);
      if (totals.records >= recordsMax) {
        const query = { createdUntilMs, limit: runBounds.roomMadeAtOnce };
        subtract(totals, await store.deleteOldest(teamId, query));
      }
      if (totals.records >= recordsMax) return false;
      totals.records += 1;
      return true;
    },
    giveRecord: (teamId) => subtract(teams.get(teamId)?.totals, { records: 1, textBytes: 0 }),
    async takeText(teamId, bytes) {
      const totals = await totalsOf(teamId);
      while (totals.textBytes + bytes > textsBytesMax) {
        const query = { bytes: totals.textBytes + bytes - textsBytesMax, limit: runBounds.roomMadeAtOnce };
        const freed = await store.dropTexts(teamId, query);
        if (freed === 0) break;
        subtract(totals, { records: 0, textBytes: freed });
      }
      totals.textBytes += bytes;
    },
    removed: (teamId, removed) => subtract(teams.get(teamId)?.totals, removed),
    forget: (teamId) => void teams.delete(teamId),
  };
}
