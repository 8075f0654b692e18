import { setTimeout as pause } from "node:timers/promises";

/** Resolves once it is so, also outside of a test. What waits in vain ends with the test's time. */
export async function until(isSo: () => boolean | Promise<boolean>, pauseMs = 20): Promise<void> {
  // With a pause: what looks all the time takes the processor from those who work.
  while (!(await isSo())) await pause(pauseMs);
}
