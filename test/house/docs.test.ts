import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { reasons, runReasons } from "#src/refusal/reasons.ts";
import { commandsOf, docPages, docStories, readActs } from "../harness/doc-page.ts";
import { readSources } from "../harness/source-facts.ts";
import { processState, testMetrics } from "../harness/test-metrics.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const pages = docPages();
const read = (page: string) => readFileSync(join(root, page), "utf8");

test("no page leaves a secret in a variable of a shell alone: it would be lost with the terminal", () => {
  const lines = docStories().flatMap(({ acts }) => commandsOf(acts).join("").split("\n"));
  expect(lines.filter((line) => /KEYRUN_(SECRET|SERVICE_TOKEN)=/.test(line))).toEqual([]);
  expect(lines.filter((line) => /openssl rand/.test(line) && !/umask 077; set -C; .* > /.test(line))).toEqual(
    [],
  );
});

test("the README shows how to start Keyrun, and its story goes as far as a revoked key", () => {
  const commands = commandsOf(readActs(read("README.md")));
  expect(commands[0]).toBe("npm ci\nnpm start\n");
  expect(commands.join("")).toContain("keys revoke");
  expect(commands.length).toBeGreaterThan(6);
});

test("every link from one page to another, or to a file, has a target", () => {
  const links = pages.flatMap((page) =>
    [...read(page).matchAll(/\]\((?!https?:|#)([^)#\s]+)/g)].map(([, target = ""]) => ({ page, target })),
  );
  expect(links.length).toBeGreaterThan(5);
  const broken = links.filter(({ page, target }) => !existsSync(join(root, dirname(page), target)));
  expect(broken).toEqual([]);
});

test("every link to a part of a page finds its title there", () => {
  const links = pages.flatMap((page) =>
    [...read(page).matchAll(/\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)/g)]
      .map(([, target = "", part = ""]) => ({ page, part, path: target && join(dirname(page), target) }))
      .filter(({ path }) => path === "" || path.endsWith(".md")),
  );
  expect(links.length).toBeGreaterThan(50);
  const dead = links.filter(({ page, path, part }) => !partsOf(read(path || page)).includes(part));
  expect(dead).toEqual([]);
});

/** The names that GitHub gives to the titles of a page. */
function partsOf(page: string): string[] {
  const text = page.replaceAll(/^( *)```.*?^\1```/gms, "");
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) => {
    const words = title.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1").toLowerCase();
    return words.replaceAll(/[^\p{L}\p{N}_ -]/gu, "").replaceAll(" ", "-");
  });
}

test("every file and folder of the source that a page names exists", () => {
  const named = pages.flatMap((page) =>
    [...read(page).matchAll(/`((?:src|web|test|proto|gen|bench|bin|docs|examples)\/[\w.*/-]*)`/g)].map(
      ([, path = ""]) => ({ page, path }),
    ),
  );
  expect(named.length).toBeGreaterThan(50);
  // Built from the source, so a clone has it only after a build.
  const built = ["web/dist/"];
  const missing = named.filter(({ path }) => globSync(path, { cwd: root }).length === 0);
  expect(missing.filter(({ path }) => !built.includes(path))).toEqual([]);
});

describe("docs/logs.md", () => {
  const lines = read("docs/logs.md")
    .split(/^## /m)
    .flatMap((part) => {
      const rows = [...part.matchAll(/^\| `(info|warn|error|fatal)` \| (.*?) \|/gm)];
      const examples = [...part.matchAll(/^\{.*\}$/gm)].map(([line]) => JSON.parse(line));
      return rows.flatMap(([, level = "", cell = ""]) => {
        const [messages = "", members = ""] = cell.split(", with ");
        // A refusal's message is one of many; the end of a long message is left out.
        const starts = quoted(messages).map((text) => text.replace(/[,;:]? …$/, ""));
        return (starts.length === 0 ? [""] : starts).map((start) => ({
          level,
          start,
          members: quoted(members),
          example: examples.shift(),
        }));
      });
    });
  const sources = [...readSources("src").values()];

  test("has an example of each line, in the order of its table", () => {
    expect(lines.length).toBeGreaterThan(50);
    for (const { level, start, members, example } of lines) {
      expect(example, start).toMatchObject({ level, time: expect.any(String) });
      expect(example.msg.slice(0, start.length)).toBe(start);
      for (const member of members) {
        const [name = "", value = String(example[name])] = member.split(": ");
        expect(Object.keys(example), start).toContain(name);
        expect(String(example[name])).toBe(value);
      }
    }
  });

  test("has the lines of the source, and no other", () => {
    const call = /\blog\.(info|warn|error|fatal)\((?:(?!\blog\b)[^"`;])*["`]([^"`$]+)/g;
    const written = sources.flatMap((source) => [...source.matchAll(call)]);
    expect(written.length).toBeGreaterThan(40);
    const isOnPage = ([, level, text = ""]: RegExpMatchArray) =>
      lines.some((line) => line.start !== "" && line.level === level && text.startsWith(line.start));
    expect(written.filter((each) => !isOnPage(each)).map(([, , text]) => text)).toEqual([]);
    expect(lines.filter(({ start }) => !sources.some((source) => source.includes(start)))).toEqual([]);
  });
});

function quoted(text: string): string[] {
  return [...text.matchAll(/`([^`]+)`/g)].map(([, each = ""]) => each);
}

test("the page of fleets names alerts that docs/alerts.yaml has, which a test runs against a fleet", () => {
  const [, alerts = ""] = /^## Alerts\n([\s\S]*?)^## /m.exec(read("docs/fleet.md")) ?? [];
  const named = [...alerts.matchAll(/`(Keyrun\w+)`/g)].map(([, name = ""]) => name);
  expect(named.length).toBeGreaterThan(5);
  const rules = [...read("docs/alerts.yaml").matchAll(/^ +- alert: (\w+)$/gm)].map(([, name = ""]) => name);
  expect(named.filter((name) => !rules.includes(name))).toEqual([]);
});

test("every alert leads to its part of the runbook, which has no other, and names refusals that there are", () => {
  const rules = read("docs/alerts.yaml");
  const names = [...rules.matchAll(/^ +- alert: (\w+)$/gm)].map(([, name = ""]) => name);
  const urls = [...rules.matchAll(/^ +runbook_url: (.*)$/gm)].map(([, url = ""]) => url);
  expect(urls).toEqual(names.map((name) => `docs/runbook.md#${name.toLowerCase()}`));
  const parts = [...read("docs/runbook.md").matchAll(/^## (.*)$/gm)].map(([, title = ""]) => title);
  expect(parts).toEqual(names);
  const codes = [...rules.matchAll(/with `([a-z_]+)`/g)].map(([, code = ""]) => code.toUpperCase());
  expect(codes).toContain("INTERNAL");
  expect(codes.filter((code) => !(code in reasons) && code !== "REFUSE")).toEqual([]);
});

test("the table for callers names the refusals of a run, each in the row of its status", () => {
  const [, section = ""] = read("docs/api.md").split("## When a run is refused");
  const rows = [...section.matchAll(/^\| (\d[\d, ]*) \| (.*?) \|/gm)].flatMap(
    ([, statuses = "", cell = ""]) =>
      [...cell.matchAll(/`([a-z_]+)`/g)].map(([, code = ""]) => ({ statuses: statuses.split(", "), code })),
  );
  const named = rows.filter(({ code }) => code !== "param");
  // Only a client that makes its HTTP or its path itself, and wrongly, can get these.
  const others = ["NOT_FOUND", "MALFORMED_REQUEST", "REQUEST_TIMEOUT", "HEADERS_TOO_LARGE"];
  const reasonsNamed = named.map(({ code }) => code.toUpperCase());
  expect(reasonsNamed.sort()).toEqual(runReasons.filter((reason) => !others.includes(reason)).sort());
  for (const { statuses, code } of named) {
    const reason = runReasons.find((each) => each.toLowerCase() === code);
    expect(statuses, code).toContain(String(reasons[reason!].httpStatus));
  }
});

test("the table of metrics names exactly those that exist, and no page names another", async () => {
  const table = [...read("docs/metrics.md").matchAll(/^\| `(keyrun_[a-z\d_]+)` \|/gm)].map(
    ([, name]) => name,
  );
  const sources = {
    limitMode: () => "shared" as const,
    leaseLeftSeconds: () => 5,
    process: () => processState,
  };
  const rendered = await testMetrics(sources).render();
  const existing = [...rendered.matchAll(/^# TYPE (keyrun_\w+)/gm)].map(([, name = ""]) => name).sort();
  expect(table.sort()).toEqual(existing);
  // A histogram's series have names of their own.
  const series = existing.flatMap((name) => [
    name,
    ...["_sum", "_count", "_bucket"].map((end) => name + end),
  ]);
  const files = [...pages, "docs/alerts.yaml", "docs/dashboards/keyrun.json"];
  const named = files.flatMap(
    (page) => read(page).match(/\bkeyrun_[a-z][a-z\d_]*[a-z]\b(?!\/|\.[a-z])/g) ?? [],
  );
  expect(named.length).toBeGreaterThan(100);
  expect([...new Set(named)].filter((name) => !series.includes(name))).toEqual([]);
});

test("every setting that the docs name exists", () => {
  const known = new Set(read(".env.example").match(/\bKEYRUN_[A-Z_]+\b/g));
  const others = new Set(["KEYRUN_API_KEY", "KEYRUN_URL"]);
  const tests = [...readSources("test")].filter(([path]) => !path.startsWith("test/house/"));
  const ofTests = new Set(tests.flatMap(([, text]) => text.match(/\bKEYRUN_TEST_[A-Z_]+\b/g) ?? []));
  const named = pages.flatMap((page) =>
    (read(page).match(/\bKEYRUN_[A-Z_]+/g) ?? []).map((name) => ({ page, name })),
  );
  expect(named.length).toBeGreaterThan(20);
  const exists = (name: string) => known.has(name) || others.has(name) || ofTests.has(name);
  expect(named.filter(({ name }) => !exists(name) && name !== "KEYRUN_TEST_")).toEqual([]);
});

test("each command of a page that runs tests names files that exist", () => {
  const commands = pages.flatMap((page) => read(page).match(/npx vitest run(?: test\/[\w./-]+)+/g) ?? []);
  const files = commands.flatMap((command) => command.match(/test\/[\w./-]+/g) ?? []);
  expect(files.length).toBeGreaterThan(2);
  expect(files.filter((file) => !existsSync(join(root, file)))).toEqual([]);
});
