const idsAtOnce = 256;

/**
 * Returns a function that gives out ids of `characters` each. `draw` makes many ids and joins them:
 * drawing random bytes for one id at a time is slow, and every request needs ids.
 */
export function createIdPool(characters: number, draw: (ids: number) => string): () => string {
  let pool = "";
  let used = 0;
  return () => {
    if (used >= pool.length) {
      pool = draw(idsAtOnce);
      used = 0;
    }
    used += characters;
    return pool.slice(used - characters, used);
  };
}
