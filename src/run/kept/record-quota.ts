import { setImmediate } from "node:timers/promises";
import type { Clock } from "../../base/clock.ts";
import { runBounds } from "../run-bounds.ts";
import type { RecordTotals, RunStore } from "./run-store.ts";

/**
 * Keeps each team within its bounds: so many records, and so many bytes of texts. The totals of a
 * team are counted in the store once, and then kept in memory. Where other instances write to the
 * store too, they are counted again now and then, and always before something is removed or
 * refused for want of room.
 */
export function createRecordQuota({
  store,
  sharedBy,
  textsBytesMax = runBounds.keptTextsBytesMax,
}: {
  store: Pick<RunStore, "totals" | "deleteOldest" | "dropTexts">;
  /** Given where other instances write to the store too. */
  sharedBy?: { readonly clock: Clock } | undefined;
  textsBytesMax?: number;
}) {
  const teams = new Map<string, TeamTotals>();

  function totalsOf(teamId: string): TeamTotals {
    const known = teams.get(teamId);
    if (known) return known;
    const totals = new TeamTotals(() => store.totals(teamId), textsBytesMax, sharedBy?.clock);
    teams.set(teamId, totals);
    for (const oldest of teams.keys()) {
      if (teams.size <= runBounds.recordTotalsMax) break;
      teams.delete(oldest);
    }
    totals.known.catch(() => {
      if (teams.get(teamId) === totals) teams.delete(teamId);
    });
    return totals;
  }

  return {
    /**
     * Makes room for one more record, and counts it. Returns false where there is no room: the team
     * has `recordsMax` records, and none was created at `createdUntilMs` or before.
     */
    async takeRecord(
      teamId: string,
      { recordsMax, createdUntilMs }: { recordsMax: number; createdUntilMs: number },
    ): Promise<boolean> {
      const totals = totalsOf(teamId);
      totals.recordsMax = recordsMax;
      const removeOldest = async () => {
        const removed = await store.deleteOldest(teamId, { createdUntilMs, limit: runBounds.roomMadeAtOnce });
        totals.subtract(removed);
        return removed.records > 0;
      };
      await totals.known;
      while (totals.now.records >= recordsMax) {
        if (await totals.recount()) continue;
        if (!(await totals.removeRecords(removeOldest))) return false;
      }
      totals.add({ records: 1, textBytes: 0 });
      return true;
    },
    /** A record was counted, but is not there. */
    giveRecord: (teamId: string) => teams.get(teamId)?.subtract({ records: 1, textBytes: 0 }),
    /** Makes room for a text, by removing older ones, and counts it. */
    async takeText(teamId: string, bytes: number): Promise<void> {
      const totals = totalsOf(teamId);
      const tooMany = () => totals.now.textBytes + bytes - textsBytesMax;
      const removeOldest = async () => {
        const limit = runBounds.roomMadeAtOnce;
        const textBytes = await store.dropTexts(teamId, { bytes: tooMany(), limit });
        totals.subtract({ records: 0, textBytes });
        return textBytes > 0;
      };
      await totals.known;
      while (tooMany() > 0) {
        if (await totals.recount()) continue;
        if (!(await totals.removeTexts(removeOldest))) break;
      }
      totals.add({ records: 0, textBytes: bytes });
    },
    /** So much was removed for another reason. */
    removed: (teamId: string, removed: RecordTotals) => teams.get(teamId)?.subtract(removed),
    /** The totals are in doubt, so they are counted again when they are needed. */
    forget: (teamId: string) => void teams.delete(teamId),
  };
}

/**
 * The totals of one team, kept in memory. With a clock, other instances write to the store too: it
 * is then counted again in the background after each `recountShare` of a bound that was added here.
 * So a team never has much more than its bounds, whatever the others add.
 */
class TeamTotals {
  /** Resolves once the totals are counted. Rejects where the store can't count. */
  readonly known: Promise<void>;
  /** The totals at this moment. Only once they are known. */
  now = nothing;
  /** The newest bound that is known. */
  recordsMax = Number.POSITIVE_INFINITY;
  readonly removeRecords = singleFlight();
  readonly removeTexts = singleFlight();
  readonly #count: () => Promise<RecordTotals>;
  readonly #textsBytesMax: number;
  readonly #clock: Clock | undefined;
  #isKnown = false;
  #added = nothing;
  #countedMs: number;
  #recounting: Promise<boolean> | undefined;

  constructor(count: () => Promise<RecordTotals>, textsBytesMax: number, clock: Clock | undefined) {
    this.#count = count;
    this.#textsBytesMax = textsBytesMax;
    this.#clock = clock;
    this.#countedMs = clock?.monotonicMs() ?? 0;
    this.known = count().then((counted) => {
      this.now = counted;
      this.#isKnown = true;
    });
  }

  /** Counts so much as there. Only once the totals are known. */
  add(more: RecordTotals): void {
    this.now = sum(this.now, more);
    this.#added = sum(this.#added, more);
    const { records, textBytes } = this.#added;
    const isMuch =
      records * runBounds.recountShare >= this.recordsMax ||
      textBytes * runBounds.recountShare >= this.#textsBytesMax;
    if (this.#clock && isMuch) void this.#recountOnce(more);
  }

  /** Counts so much as gone. */
  subtract({ records, textBytes }: RecordTotals): void {
    if (!this.#isKnown) return;
    this.now = {
      records: Math.max(0, this.now.records - records),
      textBytes: Math.max(0, this.now.textBytes - textBytes),
    };
  }

  /**
   * Counts again what other instances have changed, unless that was done within `recountMsMin`.
   * Resolves with whether it did. Never rejects: a count that fails leaves the totals as they are.
   */
  async recount(): Promise<boolean> {
    if (!this.#clock || this.#clock.monotonicMs() - this.#countedMs < runBounds.recountMsMin) return false;
    return this.#recountOnce(nothing);
  }

  #recountOnce(unwritten: RecordTotals): Promise<boolean> {
    this.#recounting ??= this.#countAgain(unwritten);
    return this.#recounting;
  }

  /** `unwritten` was added just now, so the store can't have it yet. */
  async #countAgain(unwritten: RecordTotals): Promise<boolean> {
    this.#added = unwritten;
    try {
      const counted = await this.#count();
      // What was added meanwhile is counted a second time rather than not at all.
      this.now = sum(counted, this.#added);
    } catch {
      return false;
    } finally {
      this.#countedMs = this.#clock?.monotonicMs() ?? 0;
      this.#recounting = undefined;
    }
    return true;
  }
}

const nothing: RecordTotals = { records: 0, textBytes: 0 };

function sum(one: RecordTotals, other: RecordTotals): RecordTotals {
  return { records: one.records + other.records, textBytes: one.textBytes + other.textBytes };
}

/**
 * Runs one removal at a time, and returns whether it removed anything. Those who need room at the
 * same time share one, and then look again. Of two removals at once, both would count what only one
 * of them has removed, or each would remove too much.
 */
function singleFlight(): (remove: () => Promise<boolean>) => Promise<boolean> {
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
