/** How many values of a label for teams or apps have series of their own, since the start. */
const labelValuesMax = 200;

/** The label of all values that came after the first ones. */
const otherValue = "other";

/** What is counted for each value of a label that has no fixed set of values. */
export interface FirstValues<Row> {
  /** Returns the row of the value, or the row of all others where there are enough. */
  of(value: string): Row;
  rows(): Iterable<Row>;
}

/**
 * Makes a row for each of the first `labelValuesMax` values, and one for all others, which is there
 * from the start. Values are never forgotten, because a series that goes away and comes back would
 * look like a restart. So neither memory nor the text of the metrics grows with the number of
 * teams. A team or an app whose own id is `other` is counted with the others.
 */
export function createFirstValues<Row>(make: (value: string) => Row): FirstValues<Row> {
  const others = make(otherValue);
  const rows = new Map([[otherValue, others]]);
  const add = (value: string): Row => {
    if (rows.size > labelValuesMax) return others;
    const row = make(value);
    rows.set(value, row);
    return row;
  };
  return {
    of: (value) => rows.get(value) ?? add(value),
    rows: () => rows.values(),
  };
}
