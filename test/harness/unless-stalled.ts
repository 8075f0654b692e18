import { setTimeout as pause } from "node:timers/promises";

const triesMax = 5;
const tickMs = 10;

/**
 * Does the work again where it fails, and this process stood still meanwhile for longer than the
 * work can bear. For work whose other side runs in this process, too: what it should say in time
 * was then never said.
 */
export async function unlessStalled<Result>(
  stallMsMax: number,
  work: () => Promise<Result>,
): Promise<Result> {
  for (let tries = 1; ; tries += 1) {
    const longest = watchStalls();
    try {
      return await work();
    } catch (thrown) {
      // A stall may have let another timer go first.
      await pause(tickMs);
      if (tries === triesMax || longest() <= stallMsMax) throw thrown;
    } finally {
      longest();
    }
  }
}

/** Returns a function that ends the watch, and says for how long the event loop stood still. */
function watchStalls(): () => number {
  let [lastMs, longestMs] = [performance.now(), 0];
  const look = () => {
    const nowMs = performance.now();
    longestMs = Math.max(longestMs, nowMs - lastMs);
    lastMs = nowMs;
  };
  const ticking = setInterval(look, tickMs);
  return () => {
    clearInterval(ticking);
    return longestMs;
  };
}
