import { setImmediate } from "node:timers/promises";
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
  readonly removeRecords: SharedRemoval;
  readonly removeTexts: SharedRemoval;
}

export function createTeamRoom({
  store,
  textsBytesMax = runBounds.keptTextsBytesMax,
}: {
  store: Pick<RunRecordStore, "totals" | "deleteOldest" | "dropTexts">;
  textsBytesMax?: number;
}): TeamRoom {
  const teams = new Map<string, Counted>();

  function teamOf(teamId: string): Counted {
    const known = teams.get(teamId);
    if (known) return known;
    const team: Counted = {
      counting: store.totals(teamId).then((totals) => ({ ...totals })),
      totals: undefined,
      removeRecords: createSharedRemoval(),
      removeTexts: createSharedRemoval(),
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
    return team;
  }

  function subtract(totals: Totals | undefined, { records, textBytes }: RecordTotals): void {
    if (!totals) return;
    totals.records = Math.max(0, totals.records - records);
    totals.textBytes = Math.max(0, totals.textBytes - textBytes);
  }

  return {
    async takeRecord(teamId, { recordsMax, createdUntilMs }) {
      const { counting, removeRecords } = teamOf(teamId);
      const totals = await counting;
      const removeOldest = async () => {
        const removed = await store.deleteOldest(teamId, { createdUntilMs, limit: runBounds.roomMadeAtOnce });
        subtract(totals, removed);
        return removed.records > 0;
      };
      while (totals.records >= recordsMax) if (!(await removeRecords(removeOldest))) return false;
      totals.records += 1;
      return true;
    },
    giveRecord: (teamId) => subtract(teams.get(teamId)?.totals, { records: 1, textBytes: 0 }),
    async takeText(teamId, bytes) {
      const { counting, removeTexts } = teamOf(teamId);
      const totals = await counting;
      const removeOldest = async () => {
        const tooMany = totals.textBytes + bytes - textsBytesMax;
        const textBytes = await store.dropTexts(teamId, { bytes: tooMany, limit: runBounds.roomMadeAtOnce });
        subtract(totals, { records: 0, textBytes });
        return textBytes > 0;
      };
      while (totals.textBytes + bytes > textsBytesMax) if (!(await removeTexts(removeOldest))) break;
      totals.textBytes += bytes;
    },
    removed: (teamId, removed) => subtract(teams.get(teamId)?.totals, removed),
    forget: (teamId) => void teams.delete(teamId),
  };
}

/** Runs one removal at a time. It returns whether it removed anything. */
type SharedRemoval = (remove: () => Promise<boolean>) => Promise<boolean>;

/**
 * Those who need room at the same time share one removal, and then look again. Of two removals at
 * once, both would count what only one of them has removed, or each would remove too much.
 */
function createSharedRemoval(): SharedRemoval {
  let running: Promise<boolean> | undefined;
  return (remove) => {
    running ??= remove()
      // A write of the embedded store stops all other work, so other work goes on in between.
      .finally(() => setImmediate())
      .finally(() => {
        running = undefined;
      });
    return running;
  };
}
