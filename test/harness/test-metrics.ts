import { createMetrics, type MetricSources, type Metrics } from "#src/metrics/metrics.ts";
import type { ProcessState } from "#src/metrics/process-meters.ts";

/** Metrics of no process in particular. */
export function testMetrics(sources: Partial<MetricSources> = {}): Metrics {
  const metrics = createMetrics({ version: "0.0.0-test", node: process.versions.node });
  metrics.observe({ unreadAnswerBytes: () => 0, runBytes: () => 0, ...sources });
  return metrics;
}

/** Of a process that has nothing to do. */
export const processState: ProcessState = {
  connections: { public: 0, internal: 0 },
  openStreams: { app: 0, keys: 0 },
  backgroundRuns: { running: 0, oldestSeconds: 0 },
  activeKeys: 0,
  quotaShares: [],
  expiringKeys: 0,
};

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
