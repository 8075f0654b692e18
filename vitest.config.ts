import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/harness/mongo-global.ts"],
    reporters: ["default", "./test/harness/reporter.ts"],
    pool: "forks",
    testTimeout: 30_000,
    hookTimeout: 60_000,
    coverage: { include: ["src/**"] },
  },
});
