/**
 * Returns a function that runs at most `perTurnMax` tasks in one turn of the event loop, in their
 * order, and the others in later turns.
 */
export function createStaggered(perTurnMax: number): (task: () => void) => void {
  const waiting: (() => void)[] = [];
  const runSome = () => {
    const tasks = waiting.splice(0, perTurnMax);
    // Before the tasks, so that one that throws stops no other.
    if (waiting.length > 0) setImmediate(runSome);
    for (const task of tasks) task();
  };
  return (task) => {
    if (waiting.push(task) === 1) setImmediate(runSome);
  };
}
