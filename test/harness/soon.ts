import { expect } from "vitest";

/** `expect.poll` with enough time for a busy machine. */
export function soon<Value>(value: () => Value) {
  return expect.poll(value, { timeout: 60_000, interval: 20 });
}
