import { defineConfig } from "vitest/config";

// Tests of processes that compete for the machine, or that measure what one of them takes.
const processes = ["test/{process,attacks}/**/*.test.ts"];
const browser = ["test/browser/**/*.test.ts"];
const campaigns = ["test/campaigns/**/*.test.ts"];
// It runs `quick` tests, so it needs no more than they do.
const mutants = ["test/campaigns/mutants.test.ts"];

// They need more than Node, npm and git: MongoDB, Redis, openssl, Python, …, or start a dozen servers.
const services = [
  "packages/transcode/test/packed.test.ts",
  "test/api/fleet-*.test.ts",
  "test/app/{renewed-tls,store-trouble}.test.ts",
  "test/bench/questions.test.ts",
  "test/cli/{completion/shells,fleet,tls}.test.ts",
  "test/{conformance,interop}/*.test.ts",
  "test/contract/mongo.test.ts",
  "test/deploy/{guard-proxies,systemd,tls-proxies}.test.ts",
  "test/limit/redis/{open-limiter,redis-mark,spend-script}.test.ts",
  "test/base/trusted-roots.test.ts",
  "test/run/backend-tls.test.ts",
  "test/server/listener-tls.test.ts",
  "test/settings/tls-files.test.ts",
  "test/store/copy-data-folder.test.ts",
  "test/store/mongo/{connection,control-store,fleet-stores,key-store,lock-team,schema}.test.ts",
  "test/store/mongo/{rotate-key,several-stores,usage-store}.test.ts",
  "test/traces/limit-spans.test.ts",
];

// Of the tiers `quick` and `services`: what needs more than Node, npm and git is in the second one alone.
const mixed = [
  "test/api/{audit,audit-life,audit-services,delete-team-steps,idempotency,kept-json,quotas,repeat-storm,service-tokens}.test.ts",
  "test/bin/{check-node,keyrun}.test.ts",
  "test/cli/scan/scan-keys.test.ts",
  "test/deploy/compose-file.test.ts",
  "test/examples/examples.test.ts",
  "test/cli/{audited-commands,connection,doctor}.test.ts",
  "test/quota/commands.test.ts",
  "test/server/connection/half-closed.test.ts",
  "test/web/try-it/snippet.test.ts",
  "test/run/{resolve-host,kept/several-instances}.test.ts",
  "test/store/{store-inspection,mongo/open-stores,mongo/store-call,sqlite/inspect-store}.test.ts",
];

// Of the tier `quick`: what measures memory, mocks a module, or needs what the product changes in its whole process (the
// tracer, the bound of a message's fields) as it was. All others share the modules of their worker, which are loaded once
// and not for each of 300 files.
const isolated = [
  "test/traces/**/*.test.ts",
  "packages/*/test/**/*.test.ts",
  "test/rpc/connect/tiny-chunks.test.ts",
  "test/run/held-answers.test.ts",
  "test/server/exchange/exchange.test.ts",
];

const notQuick = [...services, ...processes, ...browser, ...campaigns];

const ofQuick = {
  provide: { isQuick: true, mongodbUri: "" },
  // Two files at once also on two cores, where Vitest's own choice is one.
  maxWorkers: 2,
  sequence: { groupOrder: 0 },
};

const withMongo = { provide: { isQuick: false }, globalSetup: ["test/harness/mongo-global.ts"] };

export default defineConfig({
  test: {
    // The tiers of CONTRIBUTING, one after the other, by `groupOrder`. A run without a file of one does not set it up.
    projects: [
      {
        extends: true,
        test: {
          ...ofQuick,
          name: "quick",
          include: ["test/**/*.test.ts"],
          exclude: [...isolated, ...notQuick],
          isolate: false,
        },
      },
      {
        extends: true,
        test: { ...ofQuick, name: "quick-isolated", include: isolated, exclude: notQuick },
      },
      {
        extends: true,
        test: {
          ...withMongo,
          name: "services",
          include: [...services, ...mixed],
          // Half of their time they wait for another server; so do those of the browser.
          maxWorkers: 3,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          ...withMongo,
          name: "processes",
          include: processes,
          maxWorkers: 1,
          sequence: { groupOrder: 2 },
        },
      },
      {
        extends: true,
        test: {
          name: "browser",
          include: browser,
          provide: { isQuick: false, mongodbUri: "" },
          globalSetup: ["test/harness/chromium-global.ts"],
          maxWorkers: 3,
          sequence: { groupOrder: 3 },
        },
      },
      {
        extends: true,
        test: {
          ...withMongo,
          name: "campaigns",
          include: campaigns,
          exclude: mutants,
          maxWorkers: 1,
          sequence: { groupOrder: 4 },
        },
      },
      {
        extends: true,
        test: {
          name: "mutants",
          include: mutants,
          provide: { isQuick: true, mongodbUri: "" },
          sequence: { groupOrder: 5 },
        },
      },
    ],
    reporters: ["default", "./test/harness/reporter.ts"],
    pool: "forks",
    // They end what hangs. On a busy machine what works may take several times as long as alone.
    testTimeout: 240_000,
    hookTimeout: 240_000,
    expect: { poll: { timeout: 60_000, interval: 20 } },
    coverage: { include: ["src/**", "packages/*/src/**"] },
  },
});
