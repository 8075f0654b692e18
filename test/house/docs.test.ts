import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { createMetrics } from "#src/metrics.ts";
import { readSteps, runStory } from "../harness/doc-story.ts";
import { createMongoDatabases, mongodbUri } from "../harness/mongo-databases.ts";
import { isSaid } from "../harness/page-text.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const pages = [
  "README.md",
  ...globSync("docs/**/*.md", { cwd: root }),
  ...globSync("bench/*.md", { cwd: root }),
];
const read = (page: string) => readFileSync(join(root, page), "utf8");

const folders = createTempFolders();
afterAll(folders.remove);

/** The README is one story; of the other pages each part under a second-level heading is. */
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

test("a page that says something else is found out", async () => {
  const steps = readSteps("```sh\necho one\n```\n\n```text\ntwo\n```\n");
  await expect(runStory(steps, { folder: folders.create() })).rejects.toThrow("This page says\ntwo");
  const failing = readSteps("```sh\ntrue\nls nowhere\ntrue\n```\n");
  await expect(runStory(failing, { folder: folders.create() })).rejects.toThrow(
    "This failed:\ntrue\nls nowhere",
  );
});

test("of what is printed only ids, keys and times may differ, and what stands under …", () => {
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

test("every link from one page to another, or to a file, leads somewhere", () => {
  const links = pages.flatMap((page) =>
    [...read(page).matchAll(/\]\((?!https?:|#)([^)#\s]+)/g)].map(([, target = ""]) => ({ page, target })),
  );
  expect(links.length).toBeGreaterThan(5);
  const broken = links.filter(({ page, target }) => !existsSync(join(root, dirname(page), target)));
  expect(broken).toEqual([]);
});

test("the metrics that the docs name are those there are", async () => {
  const named = new Set(read("docs/operations.md").match(/\bkeyrun_[a-z_]+(?=`)/g));
  const rendered = (await createMetrics().render()).matchAll(/^# TYPE (keyrun_\w+)/gm);
  expect([...named].sort()).toEqual([...rendered].map(([, name]) => name).sort());
});

test("what the docs call by a setting's name is a setting", () => {
  const known = new Set(read(".env.example").match(/\bKEYRUN_[A-Z_]+\b/g));
  const others = new Set([
    "KEYRUN_API_KEY",
    "KEYRUN_TEST_MONGODB_URI",
    "KEYRUN_TEST_REQUIRE_ALL",
    "KEYRUN_GRPC_TLS_",
  ]);
  const named = pages.flatMap((page) =>
    (read(page).match(/\bKEYRUN_[A-Z_]+/g) ?? []).map((name) => ({ page, name })),
  );
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter(({ name }) => !known.has(name) && !others.has(name))).toEqual([]);
});
