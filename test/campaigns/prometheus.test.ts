import { spawnSync } from "node:child_process";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { type Fleet, fleetMissing, startFleet } from "../harness/fleet.ts";
import { repository, type ServingKeyrun, serveKeyrun } from "../harness/keyrun-process.ts";
import { describeWith } from "../harness/needs.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";
import { createTempFolders } from "../harness/temp-folders.ts";
import { type Prometheus, prometheusMissing, type Sample, startPrometheus } from "./prometheus.ts";
import { openWatchedTraffic, type WatchedTraffic } from "./watched-traffic.ts";

const page = readFileSync(join(repository, "docs/metrics.md"), "utf8");
const alertsFile = join(repository, "docs/alerts.yaml");
const dashboard: Dashboard = JSON.parse(
  readFileSync(join(repository, "docs/dashboards/keyrun.json"), "utf8"),
);

interface Dashboard {
  readonly panels: readonly {
    readonly title: string;
    readonly targets?: readonly { readonly expr: string }[];
  }[];
}

const pageQueries = [...page.matchAll(/^```promql\n([\s\S]*?)^```$/gm)].map(([, query = ""]) => query.trim());
const dashboardQueries = dashboard.panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr }) => ({ title, expr })),
);
/** What Grafana puts in for its variables. */
const filledIn = (expr: string) => expr.replaceAll("$__rate_interval", "5m").replaceAll("$instance", ".*");
const alertQueries = [
  ...readFileSync(alertsFile, "utf8").matchAll(/- alert: (\w+)\n\s+expr: (?:\|\n((?: {10,}.*\n)+)|(.*)\n)/g),
].map(([, name = "", lines, line]) => ({ name, expr: (lines ?? line ?? "").trim() }));

const metricNames = /\b(?:keyrun|nodejs|process)_\w+/g;

const missing = prometheusMissing();
vi.setConfig({ testTimeout: 600_000, hookTimeout: 600_000 });

test("the queries of the page, the dashboard and the alerts are found", () => {
  expect(pageQueries.length).toBeGreaterThan(20);
  expect(dashboardQueries.length).toBeGreaterThan(35);
  expect(alertQueries.length).toBe(readFileSync(alertsFile, "utf8").match(/- alert: /g)?.length);
});

describeWith(missing)("with promtool", () => {
  const promtool = (...args: string[]) => spawnSync("promtool", args, { encoding: "utf8", cwd: repository });

  test("the rules of the alerts are right", () => {
    const { status, stdout, stderr } = promtool("check", "rules", alertsFile);
    expect(status, stdout + stderr).toBe(0);
    expect(stdout).toContain(`${alertQueries.length} rules found`);
  });

  test("the alerts fire when they should, and not before", () => {
    const { status, stdout, stderr } = promtool("test", "rules", "test/metrics/alerts.test.yaml");
    expect(status, stdout + stderr).toBe(0);
  });

  test("every alert has a case in which it fires", () => {
    const cases = readFileSync(join(repository, "test/metrics/alerts.test.yaml"), "utf8");
    const fired = [...cases.matchAll(/alertname: (\w+)\n\s+exp_alerts:\n/g)].map(([, name]) => name);
    expect(alertQueries.map(({ name }) => name).filter((name) => !fired.includes(name))).toEqual([]);
  });
});

describeWith(missing ?? fleetMissing("processes"))("in a Prometheus that scrapes real Keyruns", () => {
  const folders = createTempFolders();
  const closers: (() => unknown)[] = [];
  let fleet: Fleet;
  let alone: ServingKeyrun;
  let prometheus: Prometheus;
  let traffic: readonly WatchedTraffic[];

  beforeAll(async () => {
    const app = await startScriptedApp();
    closers.push(app.close);
    const settings = { KEYRUN_PLAN_LIMITS: "free=10,pro=100000" };
    fleet = await startFleet({ in: "processes", size: 2, settings });
    closers.push(fleet.close);
    const { serviceToken } = fleet;
    alone = await serveKeyrun(folders.create(), { ...settings, KEYRUN_SERVICE_TOKEN: serviceToken });
    closers.push(async () => {
      alone.kill("SIGTERM");
      await alone.exited;
    });
    const keyruns = [alone, ...fleet.members];
    const folder = folders.create();
    prometheus = await startPrometheus(folder, configuration(folder, { serviceToken, keyruns }));
    closers.push(prometheus.close);
    // The series should be there before their first events, as on an instance that is older.
    await until(async () => (await prometheus.query("keyrun_build_info")).length === 3);
    traffic = await Promise.all(
      keyruns.map((keyrun, place) =>
        openWatchedTraffic({ ...keyrun, serviceToken, appUrl: app.url, name: `keyrun-${place}` }),
      ),
    );
    closers.push(() => traffic.forEach((each) => void each.close()));
  });

  afterAll(async () => {
    for (const close of closers.reverse()) await close();
    folders.remove();
  });

  /** Asks again, with more traffic in between, until the answer will do. */
  async function answered(query: string, isEnough: (samples: readonly Sample[]) => boolean) {
    let samples: readonly Sample[] = [];
    await until(async () => {
      samples = await prometheus.query(query);
      if (isEnough(samples)) return true;
      // On a busy machine an instance may refuse some of it. The next round is for that.
      await Promise.allSettled(traffic.map((each) => each.round()));
      return false;
    }).catch(() => {});
    return samples;
  }

  const hasNumber = (samples: readonly Sample[]) => samples.some(({ value }) => Number.isFinite(value));
  /** The queries that find no number, or are wrong. */
  async function unanswered(queries: readonly { readonly name: string; readonly query: string }[]) {
    const failed: string[] = [];
    for (const { name, query } of queries) {
      const samples = await answered(query, hasNumber);
      if (!hasNumber(samples)) failed.push(`${name}: ${query} gives ${JSON.stringify(samples)}`);
    }
    return failed;
  }

  test("the configuration of the page scrapes every instance, with the service token", async () => {
    // On a busy machine a scrape may take more than its second. The next one is for that.
    const errors = async () => (await prometheus.targets()).map(({ lastError }) => lastError);
    await expect.poll(errors).toEqual(["", "", ""]);
    await expect.poll(() => prometheus.query('up{job="keyrun"} == 1')).toHaveLength(3);
  });

  test("every query of the dashboard finds series with numbers", async () => {
    const queries = dashboardQueries.map(({ title, expr }) => ({ name: title, query: filledIn(expr) }));
    expect(await unanswered(queries)).toEqual([]);
  });

  test("every query of the page finds series with numbers", async () => {
    expect(await unanswered(pageQueries.map((query) => ({ name: "page", query })))).toEqual([]);
  });

  test("every alert is loaded, its query runs, and each metric that it names exists", async () => {
    expect([...(await prometheus.alerts())].sort()).toEqual(alertQueries.map(({ name }) => name).sort());
    for (const { expr } of alertQueries) {
      await prometheus.query(expr);
      for (const [metric] of expr.matchAll(metricNames)) {
        const found = await answered(`count(${metric})`, (samples) => samples.length === 1);
        expect(found, `${metric} in ${expr}`).toHaveLength(1);
      }
    }
  });

  test("the alerts that fit this traffic see it: an app that fails, and a team that is throttled", async () => {
    const of = (name: string) => alertQueries.find((alert) => alert.name === name)?.expr ?? "";
    const failing = await answered(of("KeyrunAppFailing"), (samples) => samples.length === 3);
    expect(failing.map(({ metric }) => metric.app).sort()).toEqual([0, 1, 2].map((n) => `keyrun-${n}-app`));
    const throttled = await answered(of("KeyrunTeamThrottled"), (samples) => samples.length === 3);
    expect(throttled.map(({ metric }) => metric.team).sort()).toEqual(
      [0, 1, 2].map((n) => `keyrun-${n}-small`),
    );
  });

  test("a lease has up to 5 seconds left on MongoDB, and the embedded store has none", async () => {
    // A busy machine may starve an instance until it has none, or a scrape of it may fail.
    const left = await answered(
      "keyrun_lease_left_seconds",
      (samples) => samples.length === 2 && samples.every(({ value }) => value > 0),
    );
    const members = fleet.members.map(({ internalUrl }) => new URL(internalUrl).host);
    expect(left.map(({ metric }) => metric.instance).sort()).toEqual(members.sort());
    for (const { value } of left) {
      expect(value).toBeGreaterThan(0);
      expect(value).toBeLessThanOrEqual(5);
    }
  });

  test("the alerts on faults, versions and unread answers see nothing where nothing is wrong", async () => {
    // Those that a busy machine can't cause: the others fire only after minutes of trouble.
    const quiet = ["KeyrunFault", "KeyrunVersionsDiffer", "KeyrunUnreadAnswers"];
    for (const name of quiet) {
      const alert = alertQueries.find((each) => each.name === name);
      expect(await prometheus.query(alert?.expr ?? ""), name).toEqual([]);
    }
  });

  test("each metric of the page's table exists with its type and labels, and there is no other", async () => {
    const rows = [...page.matchAll(/^\| `(keyrun_\w+)` \| (\w+) \|([^|]*)\|/gm)].map(
      ([, name = "", type = "", cell = ""]) => ({
        ...{ name, type },
        labels: [...cell.matchAll(/`(\w+)`/g)].map(([, label]) => label).sort(),
      }),
    );
    const printed = new Map<string, { name: string; type: string; labels: string[] }>();
    for (const { internalUrl } of [alone, ...fleet.members]) {
      for (const metric of await printedBy(internalUrl)) printed.set(metric.name, metric);
    }
    expect(rows.sort(byName)).toEqual([...printed.values()].sort(byName));
  });

  async function printedBy(internalUrl: string) {
    const headers = { authorization: `Bearer ${fleet.serviceToken}` };
    const text = await (await fetch(`${internalUrl}/metrics`, { headers })).text();
    return [...text.matchAll(/^# TYPE (keyrun_\w+) (\w+)\n((?:[^#].*\n)*)/gm)].map(
      ([, name = "", type = "", series = ""]) => {
        const labels = [...series.matchAll(/[{,](\w+)="/g)].map(([, label = ""]) => label);
        const own = new Set(labels.filter((label) => label !== "le"));
        return { name, type, labels: [...own].sort() };
      },
    );
  }

  /** The page's own configuration, for these targets and more often. */
  function configuration(
    folder: string,
    { serviceToken, keyruns }: { serviceToken: string; keyruns: readonly { internalUrl: string }[] },
  ): string {
    const token = join(folder, "token");
    writeFileSync(token, `${serviceToken}\n`, { mode: 0o600 });
    copyFileSync(alertsFile, join(folder, "alerts.yaml"));
    const targets = keyruns.map(({ internalUrl }) => JSON.stringify(new URL(internalUrl).host));
    const [, yaml = ""] = /^```yaml\n([\s\S]*?)^```$/m.exec(page) ?? [];
    const changes = [
      ["/etc/prometheus/keyrun-service-token", token],
      ["scrape_interval: 15s", "scrape_interval: 1s\n    scrape_timeout: 1s"],
      ['"127.0.0.1:8081"', targets.join(", ")],
    ] as const;
    return changes.reduce((text, [from, to]) => {
      expect(text).toContain(from);
      return text.replace(from, to);
    }, yaml);
  }
});

const byName = (one: { name: string }, other: { name: string }) => (one.name < other.name ? -1 : 1);

const untilMsMax = 60_000;

async function until(condition: () => Promise<boolean>): Promise<void> {
  const endMs = performance.now() + untilMsMax;
  while (!(await condition())) {
    if (performance.now() > endMs) throw new Error("it did not come in time");
    await pause(500);
  }
}
