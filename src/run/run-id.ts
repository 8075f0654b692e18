import { encodeCrockford } from "../keys/base-encoding.ts";
import type { RandomBytes } from "../keys/key-value.ts";

const runIdBytes = 15; // 120 bits: 24 characters.
const runIdCharacters = 24;
const poolIds = 256;

/**
 * Makes ids like `run_9pm5cn647f9btdqa6230593t`. They are drawn and written many at once: one by one that costs more
 * than all else that an id needs.
 */
export function createRunIds(randomBytes: RandomBytes): () => string {
  let pool = "";
  let used = 0;
  return () => {
    if (used >= pool.length) {
      pool = encodeCrockford(randomBytes(runIdBytes * poolIds));
      used = 0;
    }
    used += runIdCharacters;
    return `run_${pool.slice(used - runIdCharacters, used)}`;
  };
}
