/** Starts connections, few in one turn of the event loop. */
export interface Staggered {
  /** Starts one, now or in a later turn. Those whose first bytes are few go before the others. */
  start(task: () => void, first: "few" | "many"): void;
  /** Tells that a connection was accepted. */
  accepted(): void;
}

/**
 * Starts at most `perTurnMax` connections in a turn. The system hands over one new connection a
 * turn. So as long as they arrive, those with many first bytes wait, because each makes the turn
 * long, for at most `heldTurnsMax` turns. After that, the last one of a turn is one of them, so
 * that none waits for ever. Each start runs in a callback of its own: what it leaves to
 * `process.nextTick` is done before the next one, and if it throws, it stops no other.
 */
export function createStaggered(perTurnMax: number, heldTurnsMax: number): Staggered {
  const few: (() => void)[] = [];
  const many: (() => void)[] = [];
  let scheduled = 0;
  let hasArrived = false;
  let heldTurns = 0;
  const schedule = () => {
    scheduled = Math.min(perTurnMax, few.length + many.length);
    for (let at = 0; at < scheduled; at += 1) setImmediate(at === 0 ? runFirst : runNext);
  };
  const runFirst = () => {
    heldTurns = hasArrived && heldTurns < heldTurnsMax ? heldTurns + 1 : 0;
    hasArrived = false;
    runNext();
  };
  const runNext = () => {
    scheduled -= 1;
    const task = scheduled === 0 ? (ofMany() ?? few.shift()) : (few.shift() ?? ofMany());
    // The last one of a turn schedules the next turn.
    if (scheduled === 0) schedule();
    task?.();
  };
  const ofMany = () => (heldTurns > 0 ? undefined : many.shift());
  return {
    start(task, first) {
      (first === "few" ? few : many).push(task);
      if (scheduled === 0) schedule();
    },
    accepted() {
      hasArrived = true;
    },
  };
}
