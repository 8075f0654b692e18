import type { Counter } from "@prometheus-io/client";

/**
 * Counts in a plain number and adds it to the registry when metrics are rendered. The registry
 * looks its counter up by labels each time, which costs more than checking a run's limit.
 */
export interface Tally {
  /** Counts one event. */
  add(): void;
  /** Moves the count to the registry. */
  flush(): void;
}

export function tallyOf(counter: Pick<Counter.Internal, "inc">): Tally {
  let taken = 0;
  return {
    add() {
      taken += 1;
    },
    flush() {
      counter.inc(taken);
      taken = 0;
    },
  };
}

export function byName<Name extends string, Value>(names: readonly Name[], make: (name: Name) => Value) {
  // The entries are made from exactly these names.
  return Object.fromEntries(names.map((name) => [name, make(name)])) as Record<Name, Value>;
}
