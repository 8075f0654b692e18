import {
  type CountedPage,
  hourMs,
  type UsageHour,
  type UsageQuery,
  type UsageSum,
  usageBounds,
} from "./usage-store.ts";

/**
 * What this process has counted, until it is written. Counting costs a look into a map, and
 * allocates nothing. It counts in pages of an hour. Where an hour gets a second page, as after a
 * step of the clock, the page counts as another incarnation: the first page's counts are not in it.
 */
export function createPendingUsage(options: {
  /** Of this process, and of no other one. */
  incarnation: string;
  countsMax?: number;
  pageCountsMax?: number;
  deletedKeysMax?: number;
}) {
  const { incarnation, countsMax = usageBounds.heldCountsMax } = options;
  const { pageCountsMax = usageBounds.pageCountsMax, deletedKeysMax = usageBounds.deletedKeysMax } = options;
  const deletedKeys = new Set<string>();
  let current: Page | undefined;
  let pages: readonly Page[] = [];
  let newestMs = Number.NEGATIVE_INFINITY;
  let again = 0;
  let size = 0;
  let lost = 0;

  function open(unixMs: number): Page {
    const startTimeMs = Math.floor(unixMs / hourMs) * hourMs;
    const isFirst = startTimeMs > newestMs;
    newestMs = Math.max(newestMs, startTimeMs);
    if (!isFirst) again += 1;
    current = {
      startTimeMs,
      endTimeMs: startTimeMs + hourMs,
      incarnation: isFirst ? incarnation : `${incarnation}.${again}`,
      counts: new Map(),
    };
    pages = [...pages, current];
    return current;
  }

  function countsOf(teamId: string, keyId: string, unixMs: number): KeyCounts | undefined {
    const isOpen = current !== undefined && unixMs >= current.startTimeMs && unixMs < current.endTimeMs;
    const page = isOpen ? current : open(unixMs);
    return page?.counts.get(keyId) ?? addTo(page, teamId, keyId);
  }

  function addTo(page: Page | undefined, teamId: string, keyId: string): KeyCounts | undefined {
    if (size >= countsMax) {
      lost += 1;
      return undefined;
    }
    size += 1;
    const counts = new KeyCounts(teamId);
    page?.counts.set(keyId, counts);
    return counts;
  }

  function letGo(isOver: (page: Page) => boolean): void {
    pages = pages.filter((page) => {
      if (!isOver(page)) return true;
      size -= page.counts.size;
      if (page === current) current = undefined;
      return false;
    });
  }

  return {
    /** A request with the key was admitted. */
    accepted(teamId: string, keyId: string, unixMs: number): void {
      const counts = countsOf(teamId, keyId, unixMs);
      if (counts === undefined) return;
      counts.accepted += 1;
      counts.hasChanged = true;
    },
    /** A limit refused a request with the key. */
    limited(teamId: string, keyId: string, unixMs: number): void {
      const counts = countsOf(teamId, keyId, unixMs);
      if (counts === undefined) return;
      counts.limited += 1;
      counts.hasChanged = true;
    },
    /** A run of the key has ended, after `appMs`. */
    ran({ teamId, keyId }: RunOfKey, hasFailed: boolean, appMs: number, unixMs: number): void {
      if (deletedKeys.has(keyId)) return;
      const counts = countsOf(teamId, keyId, unixMs);
      if (counts === undefined) return;
      if (hasFailed) counts.failed += 1;
      counts.appMs += appMs;
      counts.hasChanged = true;
    },
    /**
     * The counts that have changed since the last `take`, and all earlier ones that `giveBack` was
     * called with. Each is the whole count of its hour.
     */
    take: (): UsageHour[] =>
      pages.flatMap((page) => {
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
      }),
    /** These could not be written, or it is not known: they are taken again. */
    giveBack(hours: readonly UsageHour[]): void {
      for (const { startTimeMs, incarnation, keyId } of hours) {
        const page = pages.find(
          (each) => each.startTimeMs === startTimeMs && each.incarnation === incarnation,
        );
        const counts = page?.counts.get(keyId);
        if (counts) counts.hasChanged = true;
      }
    },
    /** The write of all that was taken has ended: lets go of hours that are over and written. */
    written(): void {
      letGo((page) => {
        const isFull = page.counts.size >= pageCountsMax;
        if (page === current && !isFull) return false;
        return [...page.counts.values()].every(({ hasChanged }) => !hasChanged);
      });
    },
    /** Lets go of what a team has. */
    forget(teamId: string): void {
      for (const { counts } of pages) {
        for (const [keyId, { teamId: owner }] of counts) {
          if (owner === teamId && counts.delete(keyId)) size -= 1;
        }
      }
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
      for (const { counts } of pages) if (counts.delete(keyId)) size -= 1;
    },
    /** How many counts were lost for want of room since the last call. */
    takeLost(): number {
      const since = lost;
      lost = 0;
      return since;
    },
    /** What is pending of a time: the stored counts of these pages are in `sums` already. */
    pendingIn({ teamId, keyId, keyIds, fromMs, untilMs }: UsageQuery) {
      const asked = pages.filter(({ startTimeMs }) => startTimeMs >= fromMs && startTimeMs < untilMs);
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
