import { expect, test } from "vitest";
import { createMetrics, entries, storeEntities } from "#src/metrics.ts";
import { reasons } from "#src/refusal/reasons.ts";

const seriesOf = (text: string) =>
  new Map(
    text
      .split("\n")
      .filter((line) => line.startsWith("keyrun_"))
      .map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.slice(line.lastIndexOf(" ") + 1))]),
  );

test("every series is there at 0 before the first event, and no event adds one", async () => {
  const metrics = createMetrics();
  const before = seriesOf(await metrics.render());
  expect([...before.values()].every((value) => value === 0)).toBe(true);
  for (const entry of entries) {
    metrics.requestEnded(entry, "OK");
    for (const reason of Object.keys(reasons) as (keyof typeof reasons)[])
      metrics.requestEnded(entry, reason);
  }
  for (const entity of storeEntities) metrics.storeRead(entity);
  for (const succeeded of [true, false]) metrics.runStarted()({ seconds: 99, succeeded });
  metrics.cachedKeyHit();
  metrics.limitRefused();
  metrics.addressAllowanceRefused();
  const after = seriesOf(await metrics.render());
  expect([...after.keys()]).toEqual([...before.keys()]);
  const unmoved = [...after].filter(([, value]) => value === 0).map(([name]) => name);
  // What ended is no longer running, and 99 s is past every bucket but the last.
  expect(
    unmoved.every((name) =>
      /^keyrun_runs_running|^keyrun_unread_answer_bytes|^keyrun_run_seconds_bucket/.test(name),
    ),
  ).toBe(true);
});

test("a request is counted once, under its entry, its outcome and the outcome's status", async () => {
  const metrics = createMetrics();
  metrics.requestEnded("rest", "RATE_LIMIT_EXCEEDED");
  metrics.requestEnded("rest", "RATE_LIMIT_EXCEEDED");
  metrics.requestEnded("grpc", "OK");
  const counted = [...seriesOf(await metrics.render())].filter(([, value]) => value > 0);
  expect(counted).toEqual([
    ['keyrun_requests_total{entry="rest",outcome="RATE_LIMIT_EXCEEDED",status="429"}', 2],
    ['keyrun_requests_total{entry="grpc",outcome="OK",status="200"}', 1],
  ]);
});

test("a run is running from its start to its end, and its seconds fall in their bucket", async () => {
  const metrics = createMetrics();
  const end = metrics.runStarted();
  metrics.runStarted();
  expect(seriesOf(await metrics.render()).get("keyrun_runs_running")).toBe(2);
  end({ seconds: 0.3, succeeded: false });
  const series = seriesOf(await metrics.render());
  expect(series.get("keyrun_runs_running")).toBe(1);
  expect(series.get('keyrun_run_seconds_bucket{le="0.25",result="failed"}')).toBe(0);
  expect(series.get('keyrun_run_seconds_bucket{le="0.5",result="failed"}')).toBe(1);
  expect(series.get('keyrun_run_seconds_sum{result="failed"}')).toBe(0.3);
});

test("the event loop's delay and the process are told too", async () => {
  const text = await createMetrics().render();
  expect(text).toContain("nodejs_eventloop_lag_p99_seconds");
  expect(text).toContain("process_resident_memory_bytes");
});

test("in the form of OpenMetrics all series are the same, and the other form stays as it was", async () => {
  const metrics = createMetrics();
  metrics.cachedKeyHit();
  metrics.runStarted()({ seconds: 0.002, succeeded: true });
  const before = seriesOf(await metrics.render());
  for (let reading = 0; reading < 2; reading += 1) {
    const open = await metrics.render("application/openmetrics-text");
    expect(open.endsWith("\n# EOF\n")).toBe(true);
    expect(open).not.toContain("\n\n");
    expect(seriesOf(open)).toEqual(before);
    // The family of a counter has no suffix there, and each of its series has one.
    const counters = [...open.matchAll(/^# TYPE (\S+) counter$/gm)].map(([, name = ""]) => name);
    expect(counters).toContain("keyrun_requests");
    expect(counters.filter((name) => name.endsWith("_total"))).toEqual([]);
    for (const name of counters) expect(open).toMatch(new RegExp(`^${name}_total[ {]`, "m"));
  }
  const text = await metrics.render();
  expect(text).toContain("# TYPE keyrun_requests_total counter");
  expect(seriesOf(text)).toEqual(before);
});

test("two registries in one process know nothing of each other", async () => {
  const [one, other] = [createMetrics(), createMetrics()];
  one.cachedKeyHit();
  expect(seriesOf(await one.render()).get("keyrun_cached_key_hits_total")).toBe(1);
  expect(seriesOf(await other.render()).get("keyrun_cached_key_hits_total")).toBe(0);
});

test("no run is lost between two readings, however many there were", async () => {
  const metrics = createMetrics();
  for (let n = 0; n < 2_500; n++) metrics.runStarted()({ seconds: 0.002, succeeded: true });
  for (const told of [2_500, 2_500]) {
    const series = seriesOf(await metrics.render());
    expect(series.get('keyrun_run_seconds_count{result="succeeded"}')).toBe(told);
    expect(series.get('keyrun_run_seconds_bucket{le="0.0025",result="succeeded"}')).toBe(told);
  }
});
