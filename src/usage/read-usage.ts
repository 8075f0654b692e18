import type { HeldUsage } from "./held-usage.ts";
import { dayMs, usageBounds } from "./usage-bounds.ts";
import { dayOf } from "./usage-keeper.ts";
import type { UsageCounts, UsageQuery, UsageStore, UsageSum } from "./usage-store.ts";

/**
 * Reads the counts of a time in steps, what this process has not written yet with them. A step
 * without a count is absent, and no key has a step twice.
 */
export type ReadUsage = (query: UsageQuery & { readonly stepMs: number }) => Promise<UsageSum[]>;

export function createReadUsage(parts: {
  readonly store: Pick<UsageStore, "hours" | "days" | "newestDay">;
  readonly held: Pick<HeldUsage, "heldIn">;
  readonly nowMs: () => number;
}): ReadUsage {
  const { store, held, nowMs } = parts;

  /** What is held is taken before the store is read: a write in between must not count twice. */
  async function hours(query: UsageQuery): Promise<UsageSum[]> {
    const { pages, sums } = held.heldIn(query);
    const stored = await store.hours({ ...query, except: pages });
    return [...stored, ...sums];
  }

  /**
   * Of the last days, the hours may say more than the day, which is set later; of old days, the
   * hours are gone. Either way the larger count is the whole one.
   */
  async function days(query: UsageQuery): Promise<UsageSum[]> {
    const setMs = (await store.newestDay(query.teamId)) ?? Number.NEGATIVE_INFINITY;
    const openMs = Math.min(setMs, dayOf(nowMs()) - usageBounds.openDays * dayMs);
    const fromMs = Math.max(query.fromMs, openMs);
    const open = fromMs < query.untilMs ? await hours({ ...query, fromMs }) : [];
    const set = await store.days(query);
    return merge([...merge(open.map(onDay), add), ...set], larger);
  }

  return ({ stepMs, ...query }) =>
    stepMs === dayMs ? days(query) : hours(query).then((sums) => merge(sums, add));
}

function onDay(sum: UsageSum): UsageSum {
  return { ...sum, startTimeMs: dayOf(sum.startTimeMs) };
}

/** One sum for each step and key. */
function merge(sums: readonly UsageSum[], join: (a: UsageCounts, b: UsageCounts) => UsageCounts): UsageSum[] {
  const merged = new Map<string, UsageSum>();
  for (const sum of sums) {
    const { startTimeMs, keyId } = sum;
    const place = `${startTimeMs}/${keyId}`;
    const before = merged.get(place);
    merged.set(place, before ? { startTimeMs, keyId, ...join(before, sum) } : sum);
  }
  return [...merged.values()];
}

function add(a: UsageCounts, b: UsageCounts): UsageCounts {
  return join(a, b, (one, other) => one + other);
}

function larger(a: UsageCounts, b: UsageCounts): UsageCounts {
  return join(a, b, Math.max);
}

function join(a: UsageCounts, b: UsageCounts, both: (one: number, other: number) => number): UsageCounts {
  return {
    acceptedCount: both(a.acceptedCount, b.acceptedCount),
    limitedCount: both(a.limitedCount, b.limitedCount),
    failedCount: both(a.failedCount, b.failedCount),
    appMs: both(a.appMs, b.appMs),
  };
}
