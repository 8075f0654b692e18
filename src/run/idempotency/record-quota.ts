import { setImmediate } from "node:timers/promises";
import type { Clock } from "../../base/clock.ts";
import { runBounds } from "../run-bounds.ts";
import type { RecordTotals, RunRecordStore } from "./run-record-store.ts";

/**
 * Keeps each team within its bounds: so many records, and so many bytes of texts. The totals of a
 * team are counted in the store once, and then kept in memory. Where other instances write to the
 * store too, they are counted again now and then, and always before something is removed or
 * refused for want of room.
 */
export interface RecordQuota {
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

interface Team {
  readonly totals: TeamTotals;
  /** The newest that is known. */
  recordsMax: number;
  readonly removeRecords: SharedRemoval;
  readonly removeTexts: SharedRemoval;
}

export function createRecordQuota({
  store,
  sharedBy,
  textsBytesMax = runBounds.keptTextsBytesMax,
}: {
  store: Pick<RunRecordStore, "totals" | "deleteOldest" | "dropTexts">;
  /** Given where other instances write to the store too. */
  sharedBy?: { readonly clock: Clock } | undefined;
  textsBytesMax?: number;
}): RecordQuota {
  const teams = new Map<string, Team>();

  function teamOf(teamId: string): Team {
    const known = teams.get(teamId);
    if (known) return known;
    const boundsOf = () => ({ records: team.recordsMax, textBytes: textsBytesMax });
    const count = (id: string) => store.totals(id);
    const team: Team = {
      totals: createTeamTotals({ count, teamId, boundsOf, clock: sharedBy?.clock }),
      recordsMax: Number.POSITIVE_INFINITY,
      removeRecords: createSharedRemoval(),
      removeTexts: createSharedRemoval(),
    };
    teams.set(teamId, team);
    for (const oldest of teams.keys()) {
      if (teams.size <= runBounds.recordTotalsMax) break;
      teams.delete(oldest);
    }
    team.totals.known.catch(() => {
      if (teams.get(teamId) === team) teams.delete(teamId);
    });
    return team;
  }

  return {
    async takeRecord(teamId, { recordsMax, createdUntilMs }) {
      const team = teamOf(teamId);
      const { totals, removeRecords } = team;
      team.recordsMax = recordsMax;
      const removeOldest = async () => {
        const removed = await store.deleteOldest(teamId, { createdUntilMs, limit: runBounds.roomMadeAtOnce });
        totals.subtract(removed);
        return removed.records > 0;
      };
      await totals.known;
      while (totals.now().records >= recordsMax) {
        if (await totals.recount()) continue;
        if (!(await removeRecords(removeOldest))) return false;
      }
      totals.add({ records: 1, textBytes: 0 });
      return true;
    },
    giveRecord: (teamId) => teams.get(teamId)?.totals.subtract({ records: 1, textBytes: 0 }),
    async takeText(teamId, bytes) {
      const { totals, removeTexts } = teamOf(teamId);
      const tooMany = () => totals.now().textBytes + bytes - textsBytesMax;
      const removeOldest = async () => {
        const limit = runBounds.roomMadeAtOnce;
        const textBytes = await store.dropTexts(teamId, { bytes: tooMany(), limit });
        totals.subtract({ records: 0, textBytes });
        return textBytes > 0;
      };
      await totals.known;
      while (tooMany() > 0) {
        if (await totals.recount()) continue;
        if (!(await removeTexts(removeOldest))) break;
      }
      totals.add({ records: 0, textBytes: bytes });
    },
    removed: (teamId, removed) => teams.get(teamId)?.totals.subtract(removed),
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

/** The totals of one team, kept in memory. */
interface TeamTotals {
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
function createTeamTotals(parts: {
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
