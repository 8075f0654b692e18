import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repository } from "../harness/keyrun-process.ts";

interface Source {
  readonly type: string;
  readonly uid: string;
}
interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly datasource?: Source;
  readonly fieldConfig?: { readonly defaults: { readonly unit?: string } };
  readonly targets?: readonly {
    readonly refId: string;
    readonly expr: string;
    readonly datasource: Source;
  }[];
}
interface Dashboard {
  readonly uid: string;
  readonly title: string;
  readonly schemaVersion: number;
  readonly panels: readonly Panel[];
  readonly templating: {
    readonly list: readonly { readonly name: string; readonly type: string; readonly datasource?: Source }[];
  };
}

const dashboard: Dashboard = JSON.parse(
  readFileSync(join(repository, "docs/dashboards/keyrun.json"), "utf8"),
);
const graphs = dashboard.panels.filter(({ type }) => type !== "row");
const targets = graphs.flatMap(({ targets = [] }) => targets);
const source = { type: "prometheus", uid: "$".concat("{datasource}") };

test("the dashboard has the rows of the page, in their order, and each has panels", () => {
  const rows = dashboard.panels.filter(({ type }) => type === "row");
  expect(rows.map(({ title }) => title)).toEqual(["Traffic", "Limits", "Apps", "Store", "Fleet", "Process"]);
  for (const [at, panel] of dashboard.panels.entries()) {
    if (panel.type === "row") expect(dashboard.panels[at + 1]?.type).not.toBe("row");
  }
});

test("it has the last schema of the classic form, and stands under the name that links know", () => {
  expect([dashboard.schemaVersion, dashboard.uid, dashboard.title]).toEqual([42, "keyrun", "Keyrun"]);
});

test("no two panels have one id or one title, and no two queries of a panel have one letter", () => {
  const ids = dashboard.panels.map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
  const titles = dashboard.panels.map(({ title }) => title);
  expect(new Set(titles).size).toBe(titles.length);
  for (const { title, targets: own = [] } of graphs) {
    expect(own.length, title).toBeGreaterThan(0);
    expect(new Set(own.map(({ refId }) => refId)).size, title).toBe(own.length);
  }
});

test("the panels lie within the width of the grid, and none covers another", () => {
  const taken = new Map<string, string>();
  for (const { title, gridPos } of dashboard.panels) {
    const { x, y, w, h } = gridPos;
    expect(x >= 0 && w > 0 && x + w <= 24, title).toBe(true);
    for (let column = x; column < x + w; column++) {
      for (let line = y; line < y + h; line++) {
        expect(taken.get(`${column} ${line}`), title).toBeUndefined();
        taken.set(`${column} ${line}`, title);
      }
    }
  }
});

test("every panel and query reads the data source that the operator chooses, and there is one", () => {
  const sources = dashboard.templating.list.filter(({ type }) => type === "datasource");
  expect(sources.map(({ name }) => name)).toEqual(["datasource"]);
  for (const each of [...graphs, ...targets]) expect(each.datasource).toEqual(source);
  const others = dashboard.templating.list.filter(({ type }) => type !== "datasource");
  for (const { datasource } of others) expect(datasource).toEqual(source);
});

test("every panel says what it shows, in a unit that Grafana has", () => {
  const units = ["reqps", "ops", "percentunit", "short", "s", "bytes"];
  for (const { title, description, fieldConfig } of graphs) {
    expect(description, title).toMatch(/^[A-Z0-9].*\.$/);
    expect(units, title).toContain(fieldConfig?.defaults.unit);
  }
});

test("every query is of the chosen instances, and uses only variables that there are", () => {
  const own = dashboard.templating.list.map(({ name }) => `$${name}`);
  for (const { expr } of targets) {
    const selectors = expr.match(/\b(?:keyrun|nodejs|process)_\w+(?:\{[^}]*\})?/g) ?? [];
    expect(selectors.length, expr).toBeGreaterThan(0);
    for (const selector of selectors) expect(selector).toContain('{instance=~"$instance"');
    for (const variable of expr.match(/\$\w+/g) ?? []) {
      expect([...own, "$__rate_interval"], expr).toContain(variable);
    }
  }
});
