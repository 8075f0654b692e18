import { spawnSync } from "node:child_process";
import { symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";
import { createTempFolders } from "../harness/temp-folders.ts";

const folders = createTempFolders();
afterAll(folders.remove);

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/**
 * Runs vitest on these files, given by their texts, and returns its exit status and its last lines.
 */
function runVitest(files: Record<string, string>, env: NodeJS.ProcessEnv = {}) {
  const folder = folders.create();
  symlinkSync(at("../../node_modules"), join(folder, "node_modules"));
  writeFileSync(join(folder, "package.json"), '{"type":"module"}');
  for (const [name, text] of Object.entries(files)) {
    const head = name.endsWith(".test.ts") ? 'import { describe, expect, test } from "vitest";\n' : "";
    writeFileSync(join(folder, name), `${head}${text}`);
  }
  const { KEYRUN_TEST_REQUIRE_ALL: _, ...outside } = process.env;
  const { status, stdout } = spawnSync(
    process.execPath,
    [
      at("../../node_modules/vitest/vitest.mjs"),
      "run",
      "--reporter=default",
      `--reporter=${at("../harness/reporter.ts")}`,
    ],
    { cwd: folder, env: { ...outside, ...env }, encoding: "utf8" },
  );
  return { status, lastLines: stdout.trimEnd().split("\n").slice(-3) };
}

const green = { "a.test.ts": 'test("one", () => expect(1).toBe(1)); test.skip("two", () => {});' };

test("a run ends with what was skipped, then with how many passed and failed", () => {
  const { status, lastLines } = runVitest(green);
  expect(lastLines).toEqual(["1 skipped:", "  a.test.ts > two", "1 passed, 0 failed"]);
  expect(status).toBe(0);
});

test("a skipped test is a failure where every test is required", () => {
  const { status, lastLines } = runVitest(green, { KEYRUN_TEST_REQUIRE_ALL: "1" });
  expect(lastLines.at(-1)).toBe("1 passed, 1 failed");
  expect(status).toBe(1);
});

test("a skipped test of the tier that needs nothing is a failure", () => {
  const config = { "vitest.config.ts": 'export default { test: { name: "quick" } };' };
  const { status, lastLines } = runVitest({ ...green, ...config });
  expect(lastLines.at(-1)).toBe("1 passed, 1 failed");
  expect(status).toBe(1);
});

test("tests, files that can't be loaded, hooks and uncaught errors are all failures", () => {
  const { status, lastLines } = runVitest({
    "failed.test.ts": 'test("one", () => expect(1).toBe(2)); test("two", () => {});',
    "broken.test.ts": 'import "./nowhere.ts";',
    "hook.test.ts":
      'import { afterAll } from "vitest"; describe("a", () => { afterAll(() => { throw new Error("x"); }); test("one", () => {}); });',
    "uncaught.test.ts":
      'test("one", async () => { setImmediate(() => { throw new Error("x"); }); await new Promise((resolve) => setTimeout(resolve, 50)); });',
  });
  expect(lastLines.slice(-2)).toEqual(["0 skipped", "3 passed, 4 failed"]);
  expect(status).toBe(1);
});
