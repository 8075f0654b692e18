/**
 * Returns a function that runs at most `perTurnMax` tasks in one turn of the event loop, in their
 * order, and the others in later turns.
 */
export function createStaggered(perTurnMax: number): (task: () => void) => void {
  const waiting: (() => void)[] = [];
  const runSome = () => {
    for (const task of waiting.splice(0, perTurnMax)) task();
    if (waiting.length > 0) setImmediate(runSome);
  };
  return (task) => {
    if (waiting.push(task) === 1) setImmediate(runSome);
  };
}
