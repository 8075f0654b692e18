import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { createMetrics } from "#src/metrics.ts";
import { readSteps, runStory } from "../harness/doc-story.ts";
import { createMongoDatabases, mongodbUri } from "../harness/mongo-databases.ts";
import { isSaid } from "../harness/page-text.ts";
import { readSources } from "../harness/source-facts.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const pages = globSync(["*.md", "docs/**/*.md", "bench/*.md"], { cwd: root });
const read = (page: string) => readFileSync(join(root, page), "utf8");

const folders = createTempFolders();
afterAll(folders.remove);

/** The README is one story. In the other pages, each part under a second-level heading is one. */
const stories = pages.flatMap((page) => {
  const parts = page === "README.md" ? [read(page)] : read(page).split(/^(?=## )/m);
  return parts
    .map((part) => ({ title: `${page}: ${/^#+ (.*)/m.exec(part)?.[1]}`, steps: readSteps(part) }))
    .filter(({ steps }) => steps.length > 0);
});
const needsMongo = ({ steps }: (typeof stories)[number]) =>
  steps.some(({ commands }) => commands.includes("mongodb://"));

describe("the commands of the docs do what the docs say", () => {
  test.each(stories.filter((story) => !needsMongo(story)))("$title", { timeout: 300_000 }, ({ steps }) =>
    runStory(steps, { folder: folders.create() }),
  );

  describe.skipIf(mongodbUri === "")("with a MongoDB server", () => {
    const databases = createMongoDatabases();
    afterAll(() => databases.drop());

    test.each(stories.filter(needsMongo))("$title", { timeout: 300_000 }, ({ steps }) =>
      runStory(steps, { folder: folders.create(), mongodbUri: databases.createUri() }),
    );
  });
});

test("a page that says something else than what happens fails the test", async () => {
  const steps = readSteps("```sh\necho one\n```\n\n```text\ntwo\n```\n");
  await expect(runStory(steps, { folder: folders.create() })).rejects.toThrow("This page says\ntwo");
  const failing = readSteps("```sh\ntrue\nls nowhere\ntrue\n```\n");
  await expect(runStory(failing, { folder: folders.create() })).rejects.toThrow(
    "This failed:\ntrue\nls nowhere",
  );
});

test("printed text may differ only in ids, keys and times, and where the page has …", () => {
  const places = new Map([["127.0.0.1:8080", "127.0.0.1:4711"]]);
  expect(isSaid("a\nb\nc\n", "a\n…\nc\n", places)).toBe(true);
  expect(isSaid("a\nb\nc\n", "a\nc\n", places)).toBe(false);
  expect(isSaid("at http://127.0.0.1:4711/x", "at http://127.0.0.1:8080/x", places)).toBe(true);
  expect(isSaid("run_1fv0j56qgf3zjgkfrwasendm ok", "run_2fv0j56qgf3zjgkfrwasendm ok", places)).toBe(true);
  expect(isSaid("run_1fv0j56qgf3zjgkfrwasendm ok", "run_2fv0j56qgf3zjgkfrwasendm no", places)).toBe(false);
});

test("the README shows how to start Keyrun, and its story goes as far as a revoked key", () => {
  const commands = readSteps(read("README.md")).map((step) => step.commands);
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

test("the source has the log messages that the docs name", () => {
  const rows = [...read("docs/operations.md").matchAll(/^\| `(?:info|warn|error|fatal)` \| (`.*?) \|/gm)];
  // The docs leave out the end of a long message.
  const messages = rows.flatMap(([, cell = ""]) =>
    [...cell.matchAll(/`([^`]+)`/g)].map(([, text = ""]) => text.replace(/[,;:]? …$/, "")),
  );
  expect(messages.length).toBeGreaterThan(10);
  const sources = [...readSources("src").values()];
  expect(messages.filter((text) => !sources.some((source) => source.includes(text)))).toEqual([]);
});

test("the docs name exactly the metrics that exist", async () => {
  const named = new Set(read("docs/operations.md").match(/\bkeyrun_[a-z_]+(?=`)/g));
  const rendered = (await createMetrics().render()).matchAll(/^# TYPE (keyrun_\w+)/gm);
  expect([...named].sort()).toEqual([...rendered].map(([, name]) => name).sort());
});

/** The settings of tests, with the texts of the tests and harness files that read them. */
const testSources = [...readSources("test")].filter(([path]) => !path.startsWith("test/house/"));
const readersOf = (setting: string) => testSources.filter(([, text]) => text.includes(`"${setting}"`));

test("every setting that the docs name exists", () => {
  const known = new Set(read(".env.example").match(/\bKEYRUN_[A-Z_]+\b/g));
  const others = new Set(["KEYRUN_API_KEY", "KEYRUN_GRPC_TLS_"]);
  const ofTests = new Set(testSources.flatMap(([, text]) => text.match(/\bKEYRUN_TEST_[A-Z_]+\b/g) ?? []));
  const named = pages.flatMap((page) =>
    (read(page).match(/\bKEYRUN_[A-Z_]+/g) ?? []).map((name) => ({ page, name })),
  );
  expect(named.length).toBeGreaterThan(20);
  const exists = (name: string) => known.has(name) || others.has(name) || ofTests.has(name);
  expect(named.filter(({ name }) => !exists(name) && name !== "KEYRUN_TEST_")).toEqual([]);
});

// They take minutes. Each runs here in its short form: as the test that it names.
test("each command on reliability names a test, and settings that this test reads and CONTRIBUTING lists", () => {
  const page = read("docs/reliability.md");
  const command = /((?:KEYRUN_TEST_\w+=\d+ )*)npx vitest run --project keyrun (test\/[\w./-]+)/g;
  const commands = [...page.matchAll(command)].map(([, settings = "", file = ""]) => ({
    file,
    settings: settings.match(/KEYRUN_TEST_\w+(?==)/g) ?? [],
  }));
  expect(commands.length).toBeGreaterThan(4);
  expect(page.match(/npx vitest/g)).toHaveLength(commands.length);
  for (const { file, settings } of commands) {
    expect(existsSync(join(root, file)), file).toBe(true);
    for (const setting of settings) {
      expect(readersOf(setting).map(([path]) => path)).toContain(file);
      expect(read("CONTRIBUTING.md")).toContain(`| \`${setting}\` |`);
    }
  }
});
