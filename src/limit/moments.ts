/**
 * Accepted requests, the oldest first: in turn, how long ago in 1/1024 ms, and how many. Flat,
 * because a process may have millions. All are whole numbers, and the ages less than the window.
 */
export type Moments = readonly number[];

/** A power of two, so that dividing by it is exact. Times stay exact for 278 years of uptime. */
export const ticksPerMs = 1024;

/** How long ago the newest request was. */
export function newestAge(moments: Moments): number {
  return moments.at(-2) ?? 0;
}

/** The same requests so many whole milliseconds later. Some may have left the window. */
export function agedBy(moments: Moments, laterMs: number): Moments {
  if (laterMs === 0) return moments;
  return moments.map((number, n) => (n % 2 === 0 ? number + laterMs * ticksPerMs : number));
}

/** As many requests as the longer one has: the nth newest is the newer of both. */
export function newerOf(one: Moments, other: Moments): Moments {
  const newestFirst: { readonly age: number; count: number }[] = [];
  const [left, right] = [backwards(one), backwards(other)];
  while (left.count > 0 || right.count > 0) {
    const age = Math.min(left.age, right.age);
    const count = Math.min(left.count || right.count, right.count || left.count);
    const last = newestFirst.at(-1);
    if (last?.age === age) last.count += count;
    else newestFirst.push({ age, count });
    left.take(count);
    right.take(count);
  }
  return newestFirst.reverse().flatMap(({ age, count }) => [age, count]);
}

/** Walks from the newest to the oldest. At the end the count is 0, and the age infinite. */
function backwards(moments: Moments) {
  let at = moments.length;
  const walk = {
    age: 0,
    count: 0,
    take(count: number) {
      walk.count = Math.max(0, walk.count - count);
      while (walk.count === 0 && at > 0) {
        at -= 2;
        walk.age = moments[at] ?? 0;
        walk.count = moments[at + 1] ?? 0;
      }
      if (walk.count === 0) walk.age = Number.POSITIVE_INFINITY;
    },
  };
  walk.take(0);
  return walk;
}
