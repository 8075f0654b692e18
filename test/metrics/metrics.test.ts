import { expect, test } from "vitest";
import { backgroundRunEnds, entries, storeEntities } from "#src/metrics/metrics.ts";
import { reasons } from "#src/refusal/reasons.ts";
import { outageKinds } from "#src/refusal/refusal.ts";
import { processState, seriesOf, testMetrics } from "../harness/test-metrics.ts";

const reasonNames = Object.keys(reasons) as (keyof typeof reasons)[];
const nobody = { teamId: undefined, seconds: undefined };
const run = { appId: "echo", outcome: "OK", seconds: 0.002 } as const;

test("every series without a team, an app or a rare outcome is there at 0 before the first event, and no event adds one", async () => {
  const metrics = testMetrics();
  const fixed = (text: string) =>
    [...seriesOf(text)].filter(([name]) => !/\b(team|app)="|^keyrun_request_seconds/.test(name));
  const before = fixed(await metrics.render());
  expect(before.filter(([, value]) => value !== 0)).toEqual([
    [`keyrun_build_info{version="0.0.0-test",node="${process.versions.node}"}`, 1],
  ]);
  for (const entry of entries) {
    metrics.requestEnded(entry, "OK", { teamId: "acme", seconds: 99 });
    for (const reason of reasonNames) metrics.requestEnded(entry, reason, { teamId: "acme", seconds: 99 });
  }
  for (const entity of storeEntities) metrics.storeRead(entity);
  for (const outcome of ["OK", "APP_FAILED"] as const) {
    metrics.runStarted();
    metrics.runEnded({ ...run, outcome, seconds: 99 });
    metrics.streamEnded("echo", outcome);
  }
  metrics.keyVerified("acme", "valid");
  metrics.cachedKeyHit();
  metrics.limitRefused();
  metrics.shed();
  for (const kind of outageKinds) metrics.outageRefused(kind);
  metrics.addressAllowanceRefused();
  metrics.changeSettled(99);
  metrics.fenced();
  metrics.leaseTaken();
  for (const state of backgroundRunEnds) metrics.backgroundRunEnded(state);
  const after = fixed(await metrics.render());
  expect(after.map(([name]) => name)).toEqual(before.map(([name]) => name));
  const unmoved = after.filter(([, value]) => value === 0).map(([name]) => name);
  // What ended is no longer running, and 99 s is past every bucket but the last.
  const still =
    /^keyrun_(runs_running|run_bytes|unread_answer_bytes|connections|open_streams|background_runs$|oldest_background_run_seconds|active_keys|expiring_keys|quota_teams|fleet_(instances|lost)|\w+_seconds_bucket)/;
  expect(unmoved.filter((name) => !still.test(name))).toEqual([]);
});

test("what is told of a fleet is read when the metrics are", async () => {
  let fleet = { mayAdmit: true, instances: 3 };
  const metrics = testMetrics({ fleet: () => fleet });
  const told = async () => {
    const series = seriesOf(await metrics.render());
    return [series.get("keyrun_fleet_instances"), series.get("keyrun_fleet_lost")];
  };
  expect(await told()).toEqual([3, 0]);
  fleet = { mayAdmit: false, instances: 2 };
  expect(await told()).toEqual([2, 1]);
});

test("runs that an app refused have a series of their own, apart from those that it failed", async () => {
  const metrics = testMetrics();
  metrics.runEnded({ ...run, outcome: "APP_REFUSED" });
  const series = seriesOf(await metrics.render());
  expect(series.get(`keyrun_app_runs_total{app="${run.appId}",outcome="APP_REFUSED"}`)).toBe(1);
});

test("the event loop's delay and the process are told too", async () => {
  const text = await testMetrics().render();
  expect(text).toContain("nodejs_eventloop_lag_p99_seconds");
  expect(text).toContain("process_resident_memory_bytes");
});

test("in the form of OpenMetrics all series are the same, and the other form stays as it was", async () => {
  const metrics = testMetrics();
  metrics.cachedKeyHit();
  metrics.runStarted();
  metrics.runEnded(run);
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

test("a request's seconds fall in the bucket of its entry and outcome, and a stream's in none", async () => {
  const metrics = testMetrics();
  metrics.requestEnded("rest", "APP_TIMEOUT", { teamId: undefined, seconds: 0.3 });
  metrics.requestEnded("rest", "APP_TIMEOUT", { teamId: undefined, seconds: 0.25 });
  metrics.requestEnded("rest", "APP_TIMEOUT", nobody);
  const series = seriesOf(await metrics.render());
  const of = (suffix: string, le = "") =>
    series.get(`keyrun_request_seconds_${suffix}{${le}entry="rest",outcome="APP_TIMEOUT"}`);
  const buckets = ["0.1", "0.25", "0.5", "30", "+Inf"].map((le) => of("bucket", `le="${le}",`));
  expect(buckets).toEqual([0, 1, 2, 2, 2]);
  expect([of("sum"), of("count")]).toEqual([0.55, 2]);
});

const teamsMany = 10_000;

test("ten thousand teams and apps cost as much as two hundred: the first have a series each, the rest is other", async () => {
  const metrics = testMetrics();
  const countAll = (from: number, to: number) => {
    for (let n = from; n < to; n++) {
      // Each id as long as an id may be.
      const id = `t${n}`.padEnd(63, "x");
      metrics.requestEnded("rest", "OK", { teamId: id, seconds: 0.001 });
      metrics.keyVerified(id, "valid");
      metrics.runStarted();
      metrics.runEnded({ ...run, appId: id });
      metrics.streamEnded(id, "APP_FAILED");
    }
  };
  countAll(0, 200);
  const small = await metrics.render();
  countAll(200, teamsMany);
  const large = await metrics.render();
  const [before, after] = [seriesOf(small), seriesOf(large)];
  expect([...after.keys()]).toEqual([...before.keys()]);
  const digits = teamsMany.toString().length * after.size;
  expect(large.length).toBeLessThan(small.length + digits);
  expect(large.length).toBeLessThan(1_000_000);
  expect(after.get(`keyrun_team_requests_total{team="${"t199".padEnd(63, "x")}",outcome="ok"}`)).toBe(1);
  for (const counted of [
    'keyrun_team_requests_total{team="other",outcome="ok"}',
    'keyrun_team_verifications_total{team="other",verdict="valid"}',
    'keyrun_app_runs_total{app="other",outcome="OK"}',
    'keyrun_app_runs_total{app="other",outcome="APP_FAILED"}',
    'keyrun_app_run_seconds_count{app="other"}',
  ]) {
    expect(after.get(counted), counted).toBe(teamsMany - 200);
  }
});

test("a team whose own id is other takes no series of another team", async () => {
  const metrics = testMetrics();
  metrics.keyVerified("other", "limited");
  for (let n = 0; n < 200; n++) metrics.keyVerified(`t${n}`, "limited");
  const series = seriesOf(await metrics.render());
  expect(series.get('keyrun_team_verifications_total{team="t199",verdict="limited"}')).toBe(1);
  expect(series.get('keyrun_team_verifications_total{team="other",verdict="limited"}')).toBe(1);
});

test("no metric has a label for the team and one for the app", async () => {
  const metrics = testMetrics();
  metrics.requestEnded("rest", "OK", { teamId: "acme", seconds: 0.001 });
  metrics.runStarted();
  metrics.runEnded(run);
  const names = [...seriesOf(await metrics.render()).keys()];
  expect(names.filter((name) => /\bteam="/.test(name) && /\bapp="/.test(name))).toEqual([]);
  expect(names.filter((name) => /\bteam="acme"|\bapp="echo"/.test(name)).length).toBeGreaterThan(10);
});

test("the numbers of a process are those of the moment", async () => {
  let state = processState;
  const metrics = testMetrics({ process: () => state });
  const read = async () => {
    const series = seriesOf(await metrics.render());
    const streams = ['connections{listener="public"}', 'open_streams{kind="app"}'];
    const runs = ["background_runs", "oldest_background_run_seconds"];
    const quotas = ['quota_teams{percent="80"}', 'quota_teams{percent="100"}'];
    return [...streams, ...runs, "active_keys", "expiring_keys", ...quotas].map((name) =>
      series.get(`keyrun_${name}`),
    );
  };
  expect(await read()).toEqual([0, 0, 0, 0, 0, 0, 0, 0]);
  const keys = {
    ...{ activeKeys: 7, expiringKeys: 9, quotaShares: [0, 0.79, 0.8, 0.99, 1] },
    backgroundRuns: { running: 4, oldestSeconds: 1.5 },
  };
  state = { connections: { public: 3, internal: 1 }, openStreams: { app: 2, keys: 5 }, ...keys };
  expect(await read()).toEqual([3, 2, 4, 1.5, 7, 9, 3, 1]);
});

test("no run is lost between two readings, however many there were", async () => {
  const metrics = testMetrics();
  for (let n = 0; n < 2_500; n++) {
    metrics.runStarted();
    metrics.runEnded(run);
  }
  for (const told of [2_500, 2_500]) {
    const series = seriesOf(await metrics.render());
    expect(series.get('keyrun_run_seconds_count{result="succeeded"}')).toBe(told);
    expect(series.get('keyrun_run_seconds_bucket{le="0.0025",result="succeeded"}')).toBe(told);
  }
});
