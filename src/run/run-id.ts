import { encodeCrockford } from "../keys/base-encoding.ts";
import type { RandomBytes } from "../keys/key-value.ts";

const runIdBytes = 15; // 120 bits: 24 characters.
const poolIds = 256;

/**
 * Makes ids like `run_9pm5cn647f9btdqa6230593t`. Random bytes are drawn for many ids at once: drawing them one by
 * one costs more than all else that an id needs.
 */
export function createRunIds(randomBytes: RandomBytes): () => string {
  let pool: Uint8Array = new Uint8Array(0);
  let used = 0;
  return () => {
    if (used >= pool.length) {
      pool = randomBytes(runIdBytes * poolIds);
      used = 0;
    }
    used += runIdBytes;
    return `run_${encodeCrockford(pool.subarray(used - runIdBytes, used))}`;
  };
}
