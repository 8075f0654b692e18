import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    // Two projects, so that only runs with tests in a browser build the screen and start one.
    projects: [
      {
        extends: true,
        test: {
          name: "keyrun",
          include: ["test/**/*.test.ts"],
          exclude: ["test/browser/**"],
          globalSetup: ["test/harness/mongo-global.ts"],
        },
      },
      {
        extends: true,
        test: {
          name: "browser",
          include: ["test/browser/**/*.test.ts"],
          globalSetup: ["test/harness/chromium-global.ts"],
          testTimeout: 60_000,
        },
      },
    ],
    reporters: ["default", "./test/harness/reporter.ts"],
    pool: "forks",
    testTimeout: 60_000,
    hookTimeout: 60_000,
    coverage: { include: ["src/**"] },
  },
});
