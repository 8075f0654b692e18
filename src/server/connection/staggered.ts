/**
 * Returns a function that runs at most `perTurnMax` tasks in one turn of the event loop, in their
 * order, and the others in later turns. Each runs in a callback of its own: what it leaves to
 * `process.nextTick` is done before the next task, and if it throws, it stops no other.
 */
export function createStaggered(perTurnMax: number): (task: () => void) => void {
  const waiting: (() => void)[] = [];
  let scheduled = 0;
  const runNext = () => {
    const task = waiting.shift();
    scheduled -= 1;
    // The last one of a turn schedules the next turn.
    if (scheduled === 0) schedule();
    task?.();
  };
  const schedule = () => {
    scheduled = Math.min(perTurnMax, waiting.length);
    for (let at = 0; at < scheduled; at += 1) setImmediate(runNext);
  };
  return (task) => {
    waiting.push(task);
    if (scheduled === 0) schedule();
  };
}
