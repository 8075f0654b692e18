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
