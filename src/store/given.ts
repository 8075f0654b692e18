/** The fields of a change that have a value: a field that is present but undefined is left out. */
export function given<T extends object>(change: T): Partial<T> {
  // The cast is safe: a subset of the fields of T is a Partial of it.
  return Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined)) as Partial<T>;
}
