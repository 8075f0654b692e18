/** Durations by case, as a test of a fleet prints them. */
export interface Histogram {
  add(name: string, ms: number): void;
  /** All durations of a case. */
  of(name: string): readonly number[];
  count(): number;
  /** A line for each case: how many, median, p99 and longest, and how many lie below each bound. */
  inWords(): string;
}

const boundsMs = [30, 150, 500, 1_000, 3_000, 5_000, 5_800, 7_000, Number.POSITIVE_INFINITY] as const;

export function createHistogram(): Histogram {
  const cases = new Map<string, number[]>();
  return {
    add(name, ms) {
      const all = cases.get(name) ?? [];
      cases.set(name, all);
      all.push(ms);
    },
    of: (name) => cases.get(name) ?? [],
    count: () => [...cases.values()].reduce((sum, each) => sum + each.length, 0),
    inWords() {
      const head = boundsMs.map((ms) => (Number.isFinite(ms) ? `≤${ms}` : "more").padStart(6)).join("");
      const lines = [...cases].map(([name, all]) => `${name.padEnd(34)}${figures(all)}${buckets(all)}`);
      return [`${"ms".padEnd(34)}     n   p50   p99   max |${head}`, ...lines].join("\n");
    },
  };
}

export function quantile(all: readonly number[], share: number): number {
  const sorted = [...all].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

function figures(all: readonly number[]): string {
  const [middle, p99, largest] = [quantile(all, 0.5), quantile(all, 0.99), Math.max(...all)];
  return `${[all.length, middle, p99, largest].map((n) => String(Math.round(n)).padStart(6)).join("")} |`;
}

function buckets(all: readonly number[]): string {
  return boundsMs
    .map((max, at) => all.filter((ms) => ms <= max && ms > (boundsMs[at - 1] ?? -1)).length)
    .map((n) => (n === 0 ? "." : `${n}`).padStart(6))
    .join("");
}
