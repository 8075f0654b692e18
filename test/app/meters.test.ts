import { expect, test } from "vitest";
import { meterRuns } from "#src/app/meters.ts";
import { systemClock } from "#src/base/clock.ts";
import { fail } from "#src/refusal/refusal.ts";
import { appOn, runOf } from "../harness/app-backends.ts";
import { seriesOf, testMetrics } from "../harness/test-metrics.ts";

test.each([
  ["well", () => Promise.resolve({ text: "x" }), "OK"],
  ["with a refusal", () => Promise.reject(fail("APP_FAILED")), "APP_FAILED"],
  [
    "with an error that is thrown at once",
    () => {
      throw new TypeError("Invalid URL");
    },
    "other",
  ],
])("a run that ends %s is no running one afterwards, and is counted", async (_, end, outcome) => {
  const metrics = testMetrics();
  const run = meterRuns(end, metrics, { clock: systemClock, countRun: () => {} });
  await (async () => run(runOf(appOn({ kind: "echo" }))))().catch(() => {});
  const series = seriesOf(await metrics.render());
  expect(series.get("keyrun_runs_running")).toBe(0);
  const ended = [...series.keys()].filter((name) => name.startsWith("keyrun_app_runs_total"));
  expect(ended.map((name) => [name.includes(outcome), series.get(name)])).toContainEqual([true, 1]);
});
