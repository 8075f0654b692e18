import { encodeCrockford } from "./base-encoding.ts";
import { createIdPool } from "./id-pool.ts";
import type { RandomBytes } from "./random-bytes.ts";

const runIdBytes = 15; // 120 bits: 24 characters.
const runIdCharacters = 24;

/** Makes ids like `run_9pm5cn647f9btdqa6230593t`. */
export function createRunIds(randomBytes: RandomBytes): () => string {
  const newId = createIdPool(runIdCharacters, (ids) => encodeCrockford(randomBytes(runIdBytes * ids)));
  return () => `run_${newId()}`;
}
