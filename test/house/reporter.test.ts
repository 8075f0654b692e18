import { spawnSync } from "node:child_process";
import { symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { tempFolders } from "../harness/closed-at-end.ts";

const folders = tempFolders();

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
  return { status, stdout, lastLines: stdout.trimEnd().split("\n").slice(-3) };
}

const green = { "a.test.ts": 'test("one", () => expect(1).toBe(1)); test.skip("two", () => {});' };

test("a run ends with what was skipped, then with how many passed and failed", () => {
  const { status, stdout, lastLines } = runVitest(green);
  expect(lastLines).toEqual(["1 skipped:", "  a.test.ts > two", "1 passed, 0 failed"]);
  expect(stdout).toContain("\n0 repeats of what proved nothing, 0 undecided\n");
  expect(status).toBe(0);
});

test("what a machine lacks is one line, with the number of tests that it takes away", () => {
  const lacking =
    'describe.skip("on a server (left out: there is no server)", () => { test("one", () => {}); test("two", () => {}); });';
  const { stdout } = runVitest({ "a.test.ts": `${lacking} test("three", () => {});`, "b.test.ts": lacking });
  expect(stdout).toContain("\n4 skipped:\n  left out, as there is no server: 4 tests\n1 passed, 0 failed\n");
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

/** Undecided until the file `seen` holds as many lines as this. */
const undecided = (runs: number) => `
import { appendFileSync, readFileSync } from "node:fs";
import { tempFolders } from "../harness/closed-at-end.ts";
test("a (kind) of", () => expect(1).toBe(1));
describe("of a (kind)", () => test("one", () => {
  appendFileSync("seen", "x");
  if (readFileSync("seen").length < ${runs}) throw Object.assign(new Error("no proof"), { name: "Undecided" });
}));`;

test("an undecided test is run once more, alone, and counts as passed only if that passes", () => {
  const once = runVitest({ "a.test.ts": undecided(2) });
  expect(once.stdout).toContain("\n0 repeats of what proved nothing, 1 undecided\n");
  expect(once.stdout).toContain("Once more, alone: a.test.ts > of a (kind) > one");
  expect(once.lastLines.slice(-2)).toEqual(["0 skipped", "2 passed, 0 failed"]);
  expect(once.status).toBe(0);
  const ever = runVitest({ "a.test.ts": undecided(9) });
  expect(ever.lastLines.at(-1)).toBe("1 passed, 1 failed");
  expect(ever.status).toBe(1);
});

test("beside an undecided test another failure stays one", () => {
  const failing = 'test("one", () => expect("seen").toBe("wanted"));';
  const { status, stdout, lastLines } = runVitest({ "a.test.ts": undecided(2), "b.test.ts": failing });
  expect(lastLines.at(-1)).toBe("2 passed, 1 failed");
  expect(status).toBe(1);
  // The words come when the test fails.
  const words = stdout.indexOf("FAILED b.test.ts > one\n  AssertionError: expected 'seen' to be 'wanted'");
  expect(words).toBeGreaterThan(0);
  expect(words).toBeLessThan(stdout.indexOf("Test Files"));
});
