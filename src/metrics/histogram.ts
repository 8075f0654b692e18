import { Histogram, type Registry } from "@prometheus-io/client";

/** The observations of one set of labels. */
export interface Observations {
  add(value: number): void;
}

/**
 * Creates a histogram that counts in plain numbers. Returns the function that adds a set of labels,
 * with all of its buckets at 0: call it once for each set, and keep the result. The library's own
 * histogram looks the labels up at each observation, which costs more than checking a run's limit.
 */
export function createHistogram<Label extends string = never>(options: {
  readonly name: string;
  readonly help: string;
  readonly labelNames?: readonly Label[];
  /** Upper bounds, ascending. */
  readonly buckets: readonly number[];
  readonly registers: Registry[];
}): (labels: Readonly<Record<Label, string>>) => Observations {
  const { name, buckets, labelNames = [] } = options;
  const sets: LabelledCounts[] = [];
  const metric = new Histogram({ ...options, labelNames: [...labelNames], buckets: [...buckets] });
  // The registry prints what this returns. It must not use `this`: the registry of OpenMetrics has
  // objects that inherit from the metric.
  Object.assign(metric, {
    getForPromString: async () => ({
      ...{ name, help: options.help, type: "histogram", aggregator: "sum" },
      values: sets.flatMap((set) => seriesOf(name, set)),
    }),
  });
  return (labels) => {
    const set = new LabelledCounts(labels, buckets);
    sets.push(set);
    return set;
  };
}

class LabelledCounts implements Observations {
  readonly labels: Readonly<Record<string, string>>;
  readonly buckets: readonly number[];
  /** One more than there are buckets: the last has what is above all of them. */
  readonly counts: Float64Array;
  sum = 0;

  constructor(labels: Readonly<Record<string, string>>, buckets: readonly number[]) {
    this.labels = labels;
    this.buckets = buckets;
    this.counts = new Float64Array(buckets.length + 1);
  }

  add(value: number): void {
    let at = 0;
    while (value > (this.buckets[at] ?? Number.POSITIVE_INFINITY)) at += 1;
    this.counts[at] = (this.counts[at] ?? 0) + 1;
    this.sum += value;
  }
}

function seriesOf(name: string, { labels, buckets, counts, sum }: LabelledCounts) {
  let count = 0;
  const perBucket = Array.from(counts, (value, at) => {
    count += value;
    const le = buckets[at] ?? "+Inf";
    return { metricName: `${name}_bucket`, labels: { le, ...labels }, value: count };
  });
  return [
    ...perBucket,
    { metricName: `${name}_sum`, labels, value: sum },
    { metricName: `${name}_count`, labels, value: count },
  ];
}
