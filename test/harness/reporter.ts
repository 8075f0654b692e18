import type { Reporter, SerializedError, TestModule } from "vitest/node";

/**
 * Ends a test run with the skipped tests and `N passed, N failed`, which is always the last line. A
 * failure outside of a test (a file that can't be loaded, an uncaught error) counts as failed, and
 * so does a skipped test of the tier `quick`, which needs nothing that a machine may lack. With
 * KEYRUN_TEST_REQUIRE_ALL=1 every skipped test and an empty run count as failed.
 */
export default class ClosingLines implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    const requireAll = process.env.KEYRUN_TEST_REQUIRE_ALL === "1";
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const passed = tests.filter((test) => test.result().state === "passed");
    const failed = tests.filter((test) => test.result().state === "failed");
    const skipped = tests.filter((test) => test.result().state === "skipped");
    // Errors of a file or a describe block, in imports or hooks.
    const broken = modules.filter((module) => hasErrors(module)).length + unhandled.length;
    const empty = requireAll && tests.length === 0 ? 1 : 0;
    const refused = skipped.filter((test) => requireAll || test.project.name === "quick").length;
    const failures = failed.length + broken + empty + refused;
    if (failures > 0) process.exitCode = 1;
    const names = skipped.map((test) => `\n  ${test.module.relativeModuleId} > ${test.fullName}`);
    // Synchronous even into a pipe: later output must come after it.
    process.stdout.write(`${skipped.length} skipped${names.length > 0 ? `:${names.join("")}` : ""}\n`);
    process.stdout.write(`${passed.length} passed, ${failures} failed\n`);
  }
}

function hasErrors(module: TestModule): boolean {
  if (module.errors().length > 0) return true;
  return [...module.children.allSuites()].some((suite) => suite.errors().length > 0);
}
