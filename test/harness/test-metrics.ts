import { createMetrics, type MetricSources, type Metrics } from "#src/metrics/metrics.ts";

/** Metrics of no process in particular. */
export function testMetrics(sources: Partial<MetricSources> = {}): Metrics {
  return createMetrics({
    build: { version: "0.0.0-test", node: process.versions.node },
    unreadAnswerBytes: () => 0,
    runBytes: () => 0,
    ...sources,
  });
}

/** The value of each of Keyrun's series, by its name with labels. */
export function seriesOf(text: string): Map<string, number> {
  const lines = text.split("\n").filter((line) => line.startsWith("keyrun_"));
  return new Map(
    lines.map((line) => {
      const end = line.lastIndexOf(" ");
      return [line.slice(0, end), Number(line.slice(end + 1))];
    }),
  );
}
