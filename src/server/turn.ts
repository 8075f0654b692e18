/** Something to be done soon. Never throws. */
export interface Task {
  run(): void;
}

/**
 * Puts work off until all that has arrived by now was read: the requests that one turn of the event loop brings are
 * then answered one after the other. The code and the tables that one of them needs are still in the processor's caches
 * for the next, and a small body, which comes with its head, is there whole.
 */
export function createTurn(): (task: Task) => void {
  let waiting: Task[] = [];
  const runAll = () => {
    const tasks = waiting;
    waiting = [];
    for (const task of tasks) task.run();
  };
  return (task) => {
    if (waiting.push(task) === 1) setImmediate(runAll);
  };
}
