import { useSyncExternalStore } from "react";

/** A value that lives outside the component tree and that components can read. */
export interface Cell<T> {
  get(): T;
  /** Calls every subscriber, unless the value is the same (`Object.is`). */
  set(value: T): void;
  subscribe(onChange: () => void): () => void;
}

export function createCell<T>(initial: T): Cell<T> {
  let value = initial;
  const readers = new Set<() => void>();
  return {
    get: () => value,
    set(next) {
      if (Object.is(value, next)) return;
      value = next;
      for (const reader of readers) reader();
    },
    subscribe(onChange) {
      readers.add(onChange);
      return () => readers.delete(onChange);
    },
  };
}

/** The cell's value. The component renders again when it changes. */
export function useCell<T>(cell: Cell<T>): T {
  return useSyncExternalStore(cell.subscribe, cell.get);
}
