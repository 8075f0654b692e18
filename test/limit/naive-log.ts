/**
 * The limit in its simplest form, slow but easy to read: a list of all accepted times. It counts in
 * whole ticks of 1/1024 ms, and `SlidingLog` in milliseconds.
 *
 * A time before the newest seen is taken as the newest. With `clock: "of entries"` only accepted
 * requests make a time seen.
 */
export function createNaiveLog(windowMs: number, { clock = "of calls" as "of calls" | "of entries" } = {}) {
  const window = windowMs * 1024;
  let entries: number[] = [];
  let now = Number.NEGATIVE_INFINITY;

  function judge(nowMs: number, limit: number, cost: number) {
    const newest = clock === "of calls" ? now : (entries.at(-1) ?? Number.NEGATIVE_INFINITY);
    now = Math.max(newest, Math.floor(nowMs * 1024));
    const accepted = entries.filter((time) => time > now - window);
    const taken = cost === 0 || accepted.length + cost <= limit;
    // The first expiry that leaves room for the whole cost.
    const free = taken
      ? now
      : window +
        (accepted.find((time) => accepted.filter((other) => other > time).length + cost <= limit) ??
          Number.NaN);
    return { accepted, taken, waitMs: (free - now) / 1024 };
  }

  return {
    spend(nowMs: number, limit: number, cost: number) {
      const { accepted: before, taken, waitMs } = judge(nowMs, limit, cost);
      const accepted = taken ? [...before, ...Array<number>(cost).fill(now)] : before;
      if (clock === "of calls" || (taken && cost > 0)) entries = accepted;
      return {
        waitMs,
        remaining: Math.max(0, limit - accepted.length),
        resetAfterMs: accepted[0] === undefined ? 0 : (accepted[0] + window - now) / 1024,
      };
    },
    /** How long the cost would wait, without taking it. */
    waitMs: (nowMs: number, limit: number, cost: number) => judge(nowMs, limit, cost).waitMs,
    /** When the newest request was accepted. */
    newestMs: () => (entries.at(-1) ?? Number.NEGATIVE_INFINITY) / 1024,
  };
}

export type NaiveLog = ReturnType<typeof createNaiveLog>;

/** A spend of a key with a limit of its own: both logs have room for it, or neither is spent. */
export function spendBothNaively(
  { team, key }: { team: NaiveLog; key: NaiveLog },
  nowMs: number,
  { limit, keyLimit, cost }: { limit: number; keyLimit: number; cost: number },
) {
  const [teamWaitMs, keyWaitMs] = [team.waitMs(nowMs, limit, cost), key.waitMs(nowMs, keyLimit, cost)];
  const accepted = teamWaitMs === 0 && keyWaitMs === 0;
  const taken = accepted ? cost : 0;
  return {
    accepted,
    team: { ...team.spend(nowMs, limit, taken), waitMs: teamWaitMs },
    key: { ...key.spend(nowMs, keyLimit, taken), waitMs: keyWaitMs },
  };
}
