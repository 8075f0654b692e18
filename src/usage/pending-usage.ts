import {
  type CountedPage,
  hourMs,
  type UsageHour,
  type UsageQuery,
  type UsageSum,
  usageBounds,
} from "./usage-store.ts";

/**
 * What this process has counted, until it is written. Counting costs a read of a map, and
 * allocates nothing.
 */
export function createPendingUsage(options: {
  /** Of this process, and of no other one. */
  incarnation: string;
  countsMax?: number;
  pageCountsMax?: number;
  deletedKeysMax?: number;
}) {
  const { incarnation, countsMax = usageBounds.pendingCountsMax } = options;
  const { pageCountsMax = usageBounds.pageCountsMax, deletedKeysMax = usageBounds.deletedKeysMax } = options;
  const deletedKeys = new Set<string>();
  const pages = new Pages(incarnation, countsMax);

  return {
    /** A request with the key was admitted. */
    accepted(teamId: string, keyId: string, unixMs: number): void {
      const counts = pages.countsOf(teamId, keyId, unixMs);
      if (counts === undefined) return;
      counts.accepted += 1;
      counts.hasChanged = true;
    },
    /** A limit refused a request with the key. */
    limited(teamId: string, keyId: string, unixMs: number): void {
      const counts = pages.countsOf(teamId, keyId, unixMs);
      if (counts === undefined) return;
      counts.limited += 1;
      counts.hasChanged = true;
    },
    /** A run of the key has ended, after `appMs`. */
    ran({ teamId, keyId }: RunOfKey, hasFailed: boolean, appMs: number, unixMs: number): void {
      if (deletedKeys.has(keyId)) return;
      const counts = pages.countsOf(teamId, keyId, unixMs);
      if (counts === undefined) return;
      if (hasFailed) counts.failed += 1;
      counts.appMs += appMs;
      counts.hasChanged = true;
    },
    /**
     * The counts that have changed since the last `take`, and all earlier ones that `giveBack` was
     * called with. Each is the whole count of its hour.
     */
    take: (): UsageHour[] => pages.all.flatMap(takeChanged),
    /** These could not be written, or it is not known: they are taken again. */
    giveBack(hours: readonly UsageHour[]): void {
      for (const { startTimeMs, incarnation, keyId } of hours) {
        const page = pages.all.find(
          (each) => each.startTimeMs === startTimeMs && each.incarnation === incarnation,
        );
        const counts = page?.counts.get(keyId);
        if (counts) counts.hasChanged = true;
      }
    },
    /** The write of all that was taken has ended: lets go of hours that are over and written. */
    written(): void {
      pages.drop((page, isCurrent) => {
        const isFull = page.counts.size >= pageCountsMax;
        if (isCurrent && !isFull) return false;
        return [...page.counts.values()].every(({ hasChanged }) => !hasChanged);
      });
    },
    /** Lets go of what a team has. */
    forget(teamId: string): void {
      pages.dropCounts((_, counts) => counts.teamId === teamId);
    },
    /**
     * Lets go of what a deleted key has. A run of it that ends later is not counted: it may end
     * when a new team has the id of the key's team.
     */
    forgetKey(keyId: string): void {
      deletedKeys.add(keyId);
      for (const first of deletedKeys) {
        if (deletedKeys.size <= deletedKeysMax) break;
        deletedKeys.delete(first);
      }
      pages.dropCounts((id) => id === keyId);
    },
    /** How many counts were lost for want of room since the last call. */
    takeLost(): number {
      const { lost } = pages;
      pages.lost = 0;
      return lost;
    },
    /** What is pending of a time: the stored counts of these pages are in `sums` already. */
    pendingIn({ teamId, keyId, keyIds, fromMs, untilMs }: UsageQuery) {
      const asked = pages.all.filter(({ startTimeMs }) => startTimeMs >= fromMs && startTimeMs < untilMs);
      const wanted = keyIds ?? (keyId === undefined ? undefined : [keyId]);
      const sums = asked.flatMap(({ startTimeMs, counts }) =>
        [...(wanted ?? counts.keys())].flatMap((id): UsageSum[] => {
          const found = counts.get(id);
          if (found?.teamId !== teamId) return [];
          return [{ startTimeMs, keyId: keyIds ? id : "", ...wholeOf(found) }];
        }),
      );
      return { pages: asked.map(pageOf), sums };
    },
  };
}

export type PendingUsage = ReturnType<typeof createPendingUsage>;

/** The part of it that requests call. */
export type CountUsage = Pick<PendingUsage, "accepted" | "limited" | "ran">;

interface RunOfKey {
  readonly teamId: string;
  readonly keyId: string;
}

/**
 * Pages of an hour. Where an hour gets a second page, as after a step of the clock, the page counts
 * as another incarnation: the first page's counts are not in it.
 */
class Pages {
  readonly #incarnation: string;
  readonly #countsMax: number;
  all: readonly Page[] = [];
  /** How many counts were lost for want of room. */
  lost = 0;
  #current: Page | undefined;
  #newestMs = Number.NEGATIVE_INFINITY;
  /** How many pages are the second ones of their hours. */
  #again = 0;
  #size = 0;

  constructor(incarnation: string, countsMax: number) {
    this.#incarnation = incarnation;
    this.#countsMax = countsMax;
  }

  /** Undefined where there is no room for one more. */
  countsOf(teamId: string, keyId: string, unixMs: number): KeyCounts | undefined {
    const current = this.#current;
    const isOpen = current !== undefined && unixMs >= current.startTimeMs && unixMs < current.endTimeMs;
    const page = isOpen ? current : this.#open(unixMs);
    return page.counts.get(keyId) ?? this.#add(page, teamId, keyId);
  }

  /** Drops the pages that are over. */
  drop(isOver: (page: Page, isCurrent: boolean) => boolean): void {
    this.all = this.all.filter((page) => {
      if (!isOver(page, page === this.#current)) return true;
      this.#size -= page.counts.size;
      if (page === this.#current) this.#current = undefined;
      return false;
    });
  }

  dropCounts(isOver: (keyId: string, counts: KeyCounts) => boolean): void {
    for (const { counts } of this.all) {
      for (const [keyId, each] of counts) {
        if (isOver(keyId, each) && counts.delete(keyId)) this.#size -= 1;
      }
    }
  }

  #open(unixMs: number): Page {
    const startTimeMs = Math.floor(unixMs / hourMs) * hourMs;
    const isFirst = startTimeMs > this.#newestMs;
    this.#newestMs = Math.max(this.#newestMs, startTimeMs);
    if (!isFirst) this.#again += 1;
    const page: Page = {
      startTimeMs,
      endTimeMs: startTimeMs + hourMs,
      incarnation: isFirst ? this.#incarnation : `${this.#incarnation}.${this.#again}`,
      counts: new Map(),
    };
    this.#current = page;
    this.all = [...this.all, page];
    return page;
  }

  #add(page: Page, teamId: string, keyId: string): KeyCounts | undefined {
    if (this.#size >= this.#countsMax) {
      this.lost += 1;
      return undefined;
    }
    this.#size += 1;
    const counts = new KeyCounts(teamId);
    page.counts.set(keyId, counts);
    return counts;
  }
}

interface Page extends CountedPage {
  readonly endTimeMs: number;
  readonly counts: Map<string, KeyCounts>;
}

class KeyCounts {
  readonly teamId: string;
  accepted = 0;
  limited = 0;
  failed = 0;
  appMs = 0;
  /** Since it was taken to be written. */
  hasChanged = false;

  constructor(teamId: string) {
    this.teamId = teamId;
  }
}

/** The counts of the page that have changed since they were taken last. */
function takeChanged(page: Page): UsageHour[] {
  const changed: UsageHour[] = [];
  for (const [keyId, counts] of page.counts) {
    if (!counts.hasChanged) continue;
    counts.hasChanged = false;
    const whole = wholeOf(counts);
    // A run that took less than half a millisecond may be all that there is.
    if (!Object.values(whole).some((count) => count > 0)) continue;
    changed.push({ ...pageOf(page), keyId, teamId: counts.teamId, ...whole });
  }
  return changed;
}

function pageOf({ startTimeMs, incarnation }: CountedPage): CountedPage {
  return { startTimeMs, incarnation };
}

function wholeOf({ accepted, limited, failed, appMs }: KeyCounts) {
  return {
    acceptedCount: accepted,
    limitedCount: limited,
    failedCount: failed,
    appMs: Math.round(appMs),
  };
}
