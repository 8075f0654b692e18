/** Work for a batch. Never throws. */
export interface Task {
  run(): void;
}

/**
 * Returns a function that delays tasks until everything that has arrived by now is read. The
 * requests of one turn of the event loop are then answered one after the other: code and tables
 * that one request needs are still in the processor's caches for the next, and a small body, which
 * comes with its head, has arrived whole. At most `tasksMax` tasks wait: each keeps what Node made
 * for its request, also if it will be refused.
 */
export function createBatch(tasksMax: number): (task: Task) => void {
  let waiting: Task[] = [];
  const runAll = () => {
    const tasks = waiting;
    waiting = [];
    for (const task of tasks) task.run();
  };
  return (task) => {
    const count = waiting.push(task);
    if (count === 1) setImmediate(runAll);
    if (count === tasksMax) runAll();
  };
}
