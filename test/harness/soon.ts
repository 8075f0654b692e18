import { expect } from "vitest";

/** As `expect.poll`, with time for a machine that is busy with other things. */
export function soon<Value>(value: () => Value) {
  return expect.poll(value, { timeout: 25_000, interval: 20 });
}
