/** The fields of a change that are given: without those that are there but undefined. */
export function given<T extends object>(change: T): Partial<T> {
  // A subset of the fields of T is a Partial of it.
  return Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined)) as Partial<T>;
}
