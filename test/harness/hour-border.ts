import { setTimeout as pause } from "node:timers/promises";

const hourMs = 3_600_000;
/** Longer than a test takes on a slow machine. */
const roomMs = 120_000;

/**
 * Waits for the next full hour where it is near, for a test that by the real clock would else begin
 * in one hour, or on one day, and end in another.
 */
export async function untilHourHasRoom(): Promise<void> {
  const leftMs = hourMs - (Date.now() % hourMs);
  if (leftMs < roomMs) await pause(leftMs + 10);
}
