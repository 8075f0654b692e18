import { Counter, Gauge, Histogram, type Registry } from "@prometheus-io/client";

/** The observations of one set of labels. */
export interface Observations {
  add(value: number): void;
}

/**
 * Creates a histogram. Returns the function that adds a set of labels, with all of its buckets at
 * 0: call it once for each set, and keep the result.
 */
export function createHistogram<Label extends string = never>(options: {
  readonly name: string;
  readonly help: string;
  readonly labelNames?: readonly Label[];
  /** Upper bounds, ascending. */
  readonly buckets: readonly number[];
  readonly registers: Registry[];
}): (labels: Readonly<Record<Label, string>>) => Observations {
  const { buckets, labelNames = [] } = options;
  const histogram = new Histogram<string>({
    ...options,
    labelNames: [...labelNames],
    buckets: [...buckets],
  });
  return (labels) => {
    histogram.zero(labels);
    const child = histogram.labels(labels);
    return { add: (value) => child.observe(value) };
  };
}

/** The events of one set of labels. */
export interface Tally {
  /** Counts one event. */
  add(): void;
}

/**
 * Creates a counter that counts in plain numbers, and adds them when metrics are rendered. Returns
 * the function that adds a set of labels, at 0: call it once for each set, and keep the result. The
 * library looks a counter's labels up each time, which costs more than checking a run's limit.
 */
export function createCounter<Label extends string = never>(options: {
  readonly name: string;
  readonly help: string;
  readonly labelNames?: readonly Label[];
  readonly registers: Registry[];
}): (labels: Readonly<Record<Label, string | number>>) => Tally {
  const flushes: (() => void)[] = [];
  const { labelNames = [] } = options;
  const collect = () => {
    for (const flush of flushes) flush();
  };
  const counter = new Counter<string>({ ...options, labelNames: [...labelNames], collect });
  return (labels) => {
    let taken = 0;
    flushes.push(() => {
      counter.inc(labels, taken);
      taken = 0;
    });
    return {
      add() {
        taken += 1;
      },
    };
  };
}

/** Returns what adds a gauge without labels, which is read when metrics are rendered. */
export function gaugesOf(registers: Registry[]): (name: string, help: string, read: () => number) => void {
  return (name, help, read) => {
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read());
      },
    });
  };
}

export function byName<Name extends string, Value>(names: readonly Name[], make: (name: Name) => Value) {
  // The entries are made from exactly these names.
  return Object.fromEntries(names.map((name) => [name, make(name)])) as Record<Name, Value>;
}

/** How many values of a label for teams or apps have series of their own, since the start. */
const labelValuesMax = 200;

/** The label of all values that came after the first ones. */
const otherValue = "other";

/**
 * For a label that has no fixed set of values. Makes a row for each of the first `labelValuesMax`
 * values, and one for all others, which is there from the start. Values are never forgotten,
 * because a series that goes away and comes back would look like a restart. So neither memory nor
 * the text of the metrics grows with the number of teams. A team or an app whose own id is `other`
 * is counted with the others. Returns what finds the row of a value.
 */
export function createFirstValues<Row>(make: (value: string) => Row): (value: string) => Row {
  const others = make(otherValue);
  const rows = new Map([[otherValue, others]]);
  const add = (value: string): Row => {
    if (rows.size > labelValuesMax) return others;
    const row = make(value);
    rows.set(value, row);
    return row;
  };
  return (value) => rows.get(value) ?? add(value);
}
