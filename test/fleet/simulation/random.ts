/** Numbers that depend on the seed alone. */
export interface Random {
  /** From 0 up to 1. */
  next(): number;
  between(min: number, max: number): number;
  whole(below: number): number;
  chance(probability: number): boolean;
  pick<T>(from: readonly T[]): T;
}

export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  // Mulberry32.
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  return {
    next,
    between: (min, max) => min + (max - min) * next(),
    whole: (below) => Math.floor(next() * below),
    chance: (probability) => next() < probability,
    pick: (from) => from[Math.floor(next() * from.length)]!,
  };
}
