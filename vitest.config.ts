import { defineConfig } from "vitest/config";

// Tests of processes that compete for the machine, or that measure what one of them takes.
const alone = ["test/process/**", "test/attacks/**", "test/image/**", "test/house/docs.test.ts"];
const inBrowser = "test/browser/**";

export default defineConfig({
  test: {
    // One after the other, by `groupOrder`. A run without a file of a project does not set it up, so that only runs
    // with tests in a browser build the screen and start one.
    projects: [
      {
        extends: true,
        test: {
          name: "keyrun",
          include: ["test/**/*.test.ts"],
          exclude: [...alone, inBrowser],
          globalSetup: ["test/harness/mongo-global.ts"],
          // Two files at once also on two cores, where Vitest's own choice is one.
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: "processes",
          include: alone.map((files) => files.replace("**", "**/*.test.ts")),
          globalSetup: ["test/harness/mongo-global.ts"],
          maxWorkers: 1,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: "browser",
          include: ["test/browser/**/*.test.ts"],
          globalSetup: ["test/harness/chromium-global.ts"],
          maxWorkers: 1,
          sequence: { groupOrder: 2 },
        },
      },
    ],
    reporters: ["default", "./test/harness/reporter.ts"],
    pool: "forks",
    // They end what hangs. On a busy machine what works may take several times as long as alone.
    testTimeout: 240_000,
    hookTimeout: 240_000,
    expect: { poll: { timeout: 60_000 } },
    coverage: { include: ["src/**"] },
  },
});
