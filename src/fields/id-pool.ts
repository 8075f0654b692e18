const idsAtOnce = 256;

/**
 * Gives out ids of `characters` each, drawn and written many at once by `draw`: one by one that costs more than all else
 * that an id needs, and every request asks for some. `draw` answers with as many as it is asked for, end to end.
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
