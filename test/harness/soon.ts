import { setTimeout as pause } from "node:timers/promises";
import { expect } from "vitest";

/** `expect.poll` with enough time for a busy machine. */
export function soon<Value>(value: () => Value) {
  return expect.poll(value, { timeout: 60_000, interval: 20 });
}

/** Resolves once it is so, also outside of a test. What waits in vain ends with the test's time. */
export async function until(isSo: () => boolean | Promise<boolean>, pauseMs = 20): Promise<void> {
  // With a pause: what looks all the time takes the processor from those who work.
  while (!(await isSo())) await pause(pauseMs);
}
