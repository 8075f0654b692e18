import { appendFileSync } from "node:fs";

/**
 * A long attack on a promise: test files, and how much they do. `npm run campaign -- <name>` runs
 * it with its size, and writes its figures down. In `npm run test:all` a file of the table that is
 * not in `test/campaigns/` takes the short size.
 */
export interface Campaign {
  readonly name: string;
  /** What is attacked, in a few words. */
  readonly attacks: string;
  readonly files: readonly string[];
  /** What the size counts; absent where the campaign has one size. */
  readonly unit?: string;
  readonly size?: number;
  readonly short?: number;
}

export const campaigns: readonly Campaign[] = [
  {
    name: "kills",
    attacks: "kill -9 amid creations, revocations and uses of keys: nothing answered is lost",
    files: ["test/process/kill.test.ts", "test/campaigns/usage-kill.test.ts"],
    ...{ unit: "kills", size: 150, short: 3 },
  },
  {
    name: "rotation-kills",
    attacks: "kill -9 amid rotations: each is whole or undone; on MongoDB a third as often",
    files: ["test/campaigns/rotate-kill.test.ts"],
    ...{ unit: "kills", size: 100, short: 12 },
  },
  {
    name: "idempotency-kills",
    attacks: "kill -9 amid runs with an Idempotency-Key: an app starts at most once",
    files: ["test/campaigns/repeat-kill.test.ts"],
    ...{ unit: "kills", size: 100, short: 10 },
  },
  {
    name: "background-kills",
    attacks: "kill -9 amid runs in the background: each that was answered has an end, once",
    files: ["test/campaigns/background-kill.test.ts"],
    ...{ unit: "kills", size: 200, short: 6 },
  },
  {
    name: "long-runs",
    attacks: "runs of minutes through HAProxy, waited for and in the background; cancels elsewhere",
    files: ["test/campaigns/long-runs.test.ts"],
    ...{ unit: "seconds", size: 900, short: 40 },
  },
  {
    name: "audit-kills",
    attacks: "kill -9 between a change and its event, on each store",
    files: ["test/campaigns/audit-kill.test.ts"],
    ...{ unit: "kills", size: 100, short: 12 },
  },
  {
    name: "copy-kills",
    attacks: "kill -9 of the copy of a data folder into MongoDB",
    files: ["test/campaigns/copy-to-mongodb.test.ts"],
    ...{ unit: "kills", size: 20, short: 2 },
  },
  {
    name: "fleet-kills",
    attacks: "kill -9 of one of three instances, amid writes and amid runs",
    files: ["test/campaigns/fleet-kill.test.ts", "test/campaigns/fleet-repeat-kill.test.ts"],
    ...{ unit: "kills", size: 30, short: 3 },
  },
  {
    name: "revocations",
    attacks: "revocations under load through seven entries and a guard: none is accepted after the answer",
    files: ["test/process/revoke-under-load.test.ts"],
    ...{ unit: "keys", size: 200, short: 24 },
  },
  {
    name: "guards",
    attacks: "guarded requests as fast as two processes make them, amid revocations of their keys",
    files: ["test/campaigns/guards.test.ts"],
    ...{ unit: "seconds", size: 60, short: 6 },
  },
  {
    name: "fleet-revocations",
    attacks: "revocations on three instances in 14 kinds of trouble",
    files: ["test/campaigns/fleet-revoke.test.ts"],
    ...{ unit: "keys", size: 1_000, short: 120 },
  },
  {
    name: "guarded-revocations",
    attacks: "revocations on three instances behind nginx, whose callers keep their connections",
    files: ["test/process/guarded-revocations.test.ts"],
    ...{ unit: "keys", size: 200, short: 12 },
  },
  {
    name: "schedules",
    attacks: "random schedules of a simulated fleet, store and network",
    files: ["test/fleet/simulation/seeds.test.ts"],
    ...{ unit: "schedules", size: 20_000, short: 1_000 },
  },
  {
    name: "fleet-clocks",
    attacks: "an instance that stands still, or whose wall clock steps",
    files: ["test/campaigns/fleet-clock.test.ts"],
    ...{ unit: "seconds", size: 60, short: 8 },
  },
  {
    name: "fleet-store",
    attacks: "MongoDB stopped, silent, slow, and restored from a backup, under three instances",
    files: ["test/campaigns/fleet-store-trouble.test.ts", "test/campaigns/fleet-restore.test.ts"],
  },
  {
    name: "fleet-limit",
    attacks: "one limit over three instances, with Redis, and while it fails",
    files: ["test/campaigns/fleet-limit.test.ts"],
  },
  {
    name: "quota-kills",
    attacks: "kill -9 amid the last requests of a month, alone and of one of three instances",
    files: ["test/campaigns/quota-kill.test.ts"],
    ...{ unit: "kills", size: 60, short: 4 },
  },
  {
    name: "fleet-life",
    attacks: "instances that join, leave, rotate secrets, and are deployed anew",
    files: [
      "test/campaigns/fleet-join.test.ts",
      "test/campaigns/fleet-deploy.test.ts",
      "test/campaigns/fleet-secrets.test.ts",
    ],
  },
  {
    name: "restarts",
    attacks: "changes of the secret over clean stops and kills, on each store",
    files: ["test/campaigns/secrets.test.ts"],
  },
  {
    name: "fleet-idempotency",
    attacks: "one Idempotency-Key from eight callers of two instances",
    files: ["test/api/fleet-idempotency.test.ts"],
    ...{ unit: "keys", size: 400, short: 40 },
  },
  {
    name: "limits",
    attacks: "the exact limit of 50 teams (short: 6) through seven entries and a guard at once",
    files: ["test/process/exact-limit.test.ts"],
    ...{ unit: "windows", size: 3, short: 1 },
  },
  {
    name: "limit-commands",
    attacks: "the script in Redis against a naive log",
    files: ["test/limit/redis/spend-script.test.ts"],
    ...{ unit: "commands", size: 1_000_000, short: 100_000 },
  },
  {
    name: "share-schedules",
    attacks: "the shares of a limit in a simulated fleet whose Redis fails",
    files: ["test/limit/redis/share-schedules.test.ts"],
    ...{ unit: "schedules", size: 1_000, short: 50 },
  },
  {
    name: "quota-commands",
    attacks: "the quotas of three instances on each store against a naive counter",
    files: ["test/quota/commands.test.ts"],
    ...{ unit: "commands", size: 1_000_000, short: 41_000 },
  },
  {
    name: "quota-schedules",
    attacks: "quotas in a simulated fleet: kills, cuts, clocks that step, plans that change, grants",
    files: ["test/quota/simulation/seeds.test.ts"],
    ...{ unit: "schedules", size: 2_000, short: 40 },
  },
  {
    name: "idempotency-storm",
    attacks: "one Idempotency-Key from nine callers, two of whom do not wait, through a network that cuts",
    files: ["test/api/repeat-storm.test.ts"],
    ...{ unit: "keys", size: 1_000, short: 200 },
  },
  {
    name: "run-storm",
    attacks: "runs and streams that end in every way: what they hold is given back",
    files: ["test/api/run-bytes-storm.test.ts"],
    ...{ unit: "runs", size: 6_000, short: 600 },
  },
  {
    name: "stalls",
    attacks: "an event loop that stands still for 2 s",
    files: ["test/campaigns/event-loop-stall.test.ts"],
  },
  {
    name: "stream-times",
    attacks: "how soon a stream's pieces and ends are told, and a slow name server harms nobody",
    files: ["test/campaigns/stream-times.test.ts", "test/campaigns/slow-names.test.ts"],
  },
  {
    name: "idle",
    attacks: "how often an idle process wakes",
    files: ["test/campaigns/idle.test.ts"],
  },
  {
    name: "full-disk",
    attacks: "revocations on a disk without a free byte",
    files: ["test/process/full-disk.test.ts"],
    ...{ unit: "revocations", size: 10_000, short: 200 },
  },
  {
    name: "malformed-http",
    attacks: "malformed HTTP/1.1, and misuse of HTTP/2 by raw frames",
    files: ["test/attacks/http1.test.ts", "test/attacks/http2.test.ts"],
    ...{ unit: "rounds", size: 20, short: 1 },
  },
  {
    name: "memory",
    attacks: "one key that holds as much memory as it can, in nineteen ways",
    files: ["test/campaigns/run-memory.test.ts"],
    ...{ unit: "percent of its plan", size: 100, short: 25 },
  },
  {
    name: "unknown-keys",
    attacks: "ids of no key, on a heap of 128 MB",
    files: ["test/campaigns/memory-cap.test.ts"],
    ...{ unit: "ids", size: 1_000_000, short: 100_000 },
  },
  {
    name: "keys-in-use",
    attacks: "many keys, each used once between long runs of another: what a cached key takes",
    files: ["test/campaigns/keys-in-use.test.ts"],
    ...{ unit: "keys", size: 20_000, short: 2_000 },
  },
  {
    name: "connections",
    attacks: "10,000 idle connections, tiny chunks, and answers that nobody reads",
    files: [
      "test/campaigns/many-connections.test.ts",
      "test/attacks/tiny-chunks.test.ts",
      "test/attacks/unread-answers.test.ts",
    ],
  },
  {
    name: "audit-flood",
    attacks: "refused attempts of strangers, which must not fill the store",
    files: ["test/attacks/audit-flood.test.ts"],
    ...{ unit: "attempts", size: 100_000, short: 10_000 },
  },
  {
    name: "usage",
    attacks: "the time of queries of the usage of 10 million requests",
    files: ["test/campaigns/usage-cost.test.ts"],
    ...{ unit: "days in MongoDB", size: 35, short: 3 },
  },
  {
    name: "image",
    attacks: "the image and compose.yaml, built and started without a daemon, as root",
    files: ["test/campaigns/image.test.ts", "test/campaigns/compose.test.ts"],
  },
  {
    name: "helm",
    attacks: "the chart: helm lint, and what it makes beside the manifests of deploy/kubernetes",
    files: ["test/campaigns/helm.test.ts"],
  },
  {
    name: "prometheus",
    attacks: "the alerts, the dashboard and the queries of the docs in a real Prometheus",
    files: ["test/campaigns/prometheus.test.ts"],
  },
  {
    name: "docs",
    attacks: "every command of every page, typed as a reader would",
    files: ["test/campaigns/docs-stories.test.ts", "test/campaigns/doc-story.test.ts"],
  },
  {
    name: "conformance",
    attacks: "Connect's conformance cases: 1 leaves the slowest of large messages out, 2 has all",
    files: ["test/conformance/conformance.test.ts"],
    ...{ unit: "of 2", size: 2, short: 1 },
  },
  {
    name: "mutants",
    attacks: "faults in the source, each of which `npm test` must see",
    files: ["test/campaigns/mutants.test.ts"],
    ...{ unit: "faults", size: 50, short: 8 },
  },
  {
    name: "ordinary-text",
    attacks: "the scanners of leaked keys, in much text without one",
    files: ["test/campaigns/ordinary-text.test.ts"],
  },
  {
    name: "release",
    attacks: "a release that is built twice, from its tag in clean clones: the same bytes",
    files: ["test/campaigns/release.test.ts"],
  },
];

/** How much the tests of a campaign do: the size that it was started with, else the short one. */
export function campaignSize(name: string): number {
  const { short, size } = campaigns.find((each) => each.name === name) ?? {};
  if (short === undefined || size === undefined) throw new Error(`The campaign ${name} has no size.`);
  return wholeNumber(process.env.KEYRUN_TEST_SIZE ?? `${short}`);
}

export function wholeNumber(text: string): number {
  if (!/^[1-9]\d*$/.test(text)) throw new Error(`A size must be a whole number above 0, and not ${text}.`);
  return Number(text);
}

/** A figure of a test: printed, and written down where a campaign runs. */
export function figure(name: string, value: number | string, unit = ""): void {
  const words = [typeof value === "string" ? value : inWords(value), unit].join(" ").trim();
  process.stderr.write(`${name}: ${words}\n`);
  const file = process.env.KEYRUN_TEST_FIGURES;
  if (file) appendFileSync(file, `${JSON.stringify([name, words])}\n`);
}

/** The same for each of these. */
export function figures(of: string, values: Readonly<Record<string, number>>): void {
  for (const [name, value] of Object.entries(values)) figure(of === "" ? name : `${of}: ${name}`, value);
}

/** The middle and the largest of some times. */
export function timeFigures(name: string, ms: readonly number[]): void {
  const sorted = [...ms].sort((a, b) => a - b);
  figure(`${name}, median`, sorted[Math.floor(sorted.length / 2)] ?? 0, "ms");
  figure(`${name}, longest`, sorted.at(-1) ?? 0, "ms");
}

function inWords(value: number): string {
  const digits = Math.abs(value) < 100 ? 2 : 0;
  return value.toLocaleString("en-US", { maximumFractionDigits: digits });
}
