/**
 * The limit in its simplest form, slow but easy to read: a list of all accepted times. It counts in
 * whole ticks of 1/1024 ms, and `SlidingLog` in milliseconds.
 */
export function createNaiveLog(windowMs: number) {
  const window = windowMs * 1024;
  let accepted: number[] = [];
  let now = Number.NEGATIVE_INFINITY;
  return {
    spend(nowMs: number, limit: number, cost: number) {
      now = Math.max(now, Math.floor(nowMs * 1024));
      accepted = accepted.filter((time) => time > now - window);
      const taken = cost === 0 || accepted.length + cost <= limit;
      // The first expiry that leaves room for the whole cost.
      const free = taken
        ? now
        : window +
          (accepted.find((time) => accepted.filter((other) => other > time).length + cost <= limit) ??
            Number.NaN);
      if (taken) accepted = [...accepted, ...Array<number>(cost).fill(now)];
      return {
        waitMs: (free - now) / 1024,
        remaining: Math.max(0, limit - accepted.length),
        resetAfterMs: accepted[0] === undefined ? 0 : (accepted[0] + window - now) / 1024,
      };
    },
  };
}
