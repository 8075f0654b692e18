import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Reporter, SerializedError, TestCase, TestModule, Vitest } from "vitest/node";

/**
 * Says of a failed test at once why it failed, and ends a run with the repeats of `eventually`, the
 * skipped tests, and `N passed, N failed`, which is always the last line. A failure outside of a
 * test (a file that can't be loaded, an uncaught error) counts as failed. So does a skipped test of
 * the tier `quick`, which needs nothing that a machine may lack. With KEYRUN_TEST_REQUIRE_ALL=1
 * every skipped test and an empty run count as failed. An undecided test is run once more, alone.
 * If it does not pass then, it has failed.
 */
export default class ClosingLines implements Reporter {
  #vitest: Vitest | undefined;
  #folder = "";

  onInit(vitest: Vitest): void {
    this.#vitest = vitest;
  }

  onTestRunStart(): void {
    this.#folder = mkdtempSync(join(tmpdir(), "keyrun-repeats-"));
    process.env.KEYRUN_TEST_REPEATS = join(this.#folder, "repeats");
  }

  onTestCaseResult(test: TestCase): void {
    const { state, errors = [] } = test.result();
    if (state !== "failed") return;
    say(`\nFAILED ${nameOf(test)}`);
    for (const { name, message, diff, stack = "" } of errors) {
      const place = stack.split("\n").find((line) => line.includes("/test/")) ?? "";
      say([`  ${name}: ${message}`, diff, place].filter(Boolean).join("\n"));
    }
  }

  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    const requireAll = process.env.KEYRUN_TEST_REQUIRE_ALL === "1";
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const passed = tests.filter((test) => test.result().state === "passed");
    const failed = tests.filter((test) => test.result().state === "failed");
    const undecided = failed.filter(isUndecided);
    const skipped = tests.filter((test) => test.result().state === "skipped");
    // Errors of a file or a describe block, in imports or hooks.
    const broken = modules.filter((module) => hasErrors(module)).length + unhandled.length;
    const empty = requireAll && tests.length === 0 ? 1 : 0;
    const refused = skipped.filter((test) => requireAll || test.project.name.startsWith("quick")).length;
    const decided = undecided.filter((test) => this.#passesAlone(test)).length;
    const failures = failed.length - decided + broken + empty + refused;
    // Vitest has counted the undecided as failed.
    if (failures > 0) process.exitCode = 1;
    else if (decided > 0) process.exitCode = 0;
    say(`${this.#repeats()} repeats of what proved nothing, ${undecided.length} undecided`);
    say([`${skipped.length} skipped${skipped.length > 0 ? ":" : ""}`, ...linesOf(skipped)].join("\n"));
    say(`${passed.length + decided} passed, ${failures} failed`);
  }

  /** In a run of its own, once all others are over. */
  #passesAlone(test: TestCase): boolean {
    const project = test.project.name === "" ? [] : ["--project", test.project.name];
    say(`\nOnce more, alone: ${nameOf(test)}`);
    const only = ["-t", `^${test.fullName.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")}$`];
    const vitest = fileURLToPath(new URL("../../node_modules/vitest/vitest.mjs", import.meta.url));
    const report = join(this.#folder, "alone.json");
    const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${report}`];
    const { status } = spawnSync(
      process.execPath,
      [vitest, "run", test.module.moduleId, ...project, ...only, ...reporters],
      { cwd: this.#vitest?.config.root ?? process.cwd(), stdio: ["ignore", "inherit", "inherit"] },
    );
    // Without a test of this name, Vitest is content.
    return status === 0 && JSON.parse(readFileSync(report, "utf8")).numPassedTests === 1;
  }

  #repeats(): number {
    const file = process.env.KEYRUN_TEST_REPEATS ?? "";
    const repeats = existsSync(file) ? statSync(file).size : 0;
    rmSync(this.#folder, { recursive: true, force: true });
    return repeats;
  }
}

const nameOf = (test: TestCase) => `${test.module.relativeModuleId} > ${test.fullName}`;

/** What a machine lacks is one line, with the number of tests that it takes away. */
function linesOf(skipped: readonly TestCase[]): string[] {
  const counts = new Map<string, number>();
  for (const test of skipped) {
    const [, missing] = /\(left out: (.+?)\)/.exec(test.fullName) ?? [];
    const words = missing === undefined ? nameOf(test) : `left out, as ${missing}`;
    counts.set(words, (counts.get(words) ?? 0) + 1);
  }
  return [...counts].map(([words, count]) => `  ${words}${count > 1 ? `: ${count} tests` : ""}`);
}

function isUndecided(test: TestCase): boolean {
  const { errors = [] } = test.result();
  return errors.length > 0 && errors.every(({ name }) => name === "Undecided");
}

function hasErrors(module: TestModule): boolean {
  if (module.errors().length > 0) return true;
  return [...module.children.allSuites()].some((suite) => suite.errors().length > 0);
}

/** Synchronous even into a pipe: later output must come after it. */
function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
