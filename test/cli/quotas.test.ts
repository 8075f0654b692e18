import { expect, test } from "vitest";
import { QuotaPeriod } from "#gen/keyrun/v1/quota_pb.ts";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { runCommand } from "../harness/command-line.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { createManualClock } from "../harness/manual-clock.ts";

const settings = { KEYRUN_PLAN_QUOTAS: "free=3/day,team=1000/month" };
// It stands still, so no day and no minute ends in the middle of a test.
const clock = createManualClock({ monotonicMs: 0, unixMs: Date.now() });
const keyrun = closedAtEnd(await startKeyrun({ settings, clock }));

const run = (argv: readonly string[], env: Record<string, string> = {}) =>
  runCommand(argv, { env: { KEYRUN_DATA_DIR: keyrun.config.dataDir, ...env } });
const requestId = "8d5f3b1e-6c0a-4b7e-9d2f-1a3c5e7f9b0d";

test("a key is created with a quota of its own, which lists and its facts tell", async () => {
  const teamId = await keyrun.newTeam();
  const create = (...options: string[]) => run(["keys", "create", "--team", teamId, ...options]);
  await create("--requests-per-day", "1000");
  const { stdout } = await create("--requests-per-month", "1000000000000", "--requests-per-minute", "5");
  const listed = (await run(["keys", "list", "--team", teamId])).stdout.split("\n");
  const only = listed.map((line) => line.split(/ {2,}/)[1]);
  expect(only.sort()).toEqual(["1000/day", "5/min, 1000000000000/month", "ONLY", undefined]);
  const shown = await run(["keys", "show", "--team", teamId, stdout.split(".")[0]!]);
  expect(shown.stdout).toMatch(/^quota +1000000000000 a month: 0 used, resets at \d{4}-\d\d-01T00:00:00Z$/m);
});

test("limit tells the quotas of the team and of the key, with the service token and without", async () => {
  const quota = { requests: 2n, period: QuotaPeriod.DAY };
  const { value, teamId } = await keyrun.newKey(await keyrun.newTeam(Plan.TEAM), { quota });
  const limit = (env: Record<string, string> = {}) =>
    run(["limit", "--json"], { KEYRUN_API_KEY: value, ...env });
  const left = async (env?: Record<string, string>) => {
    const { limits } = JSON.parse((await limit(env)).stdout) as { limits: Record<string, unknown>[] };
    return limits.map(({ name, limit, remaining }) => [name, limit, remaining].join(" "));
  };
  // It takes nothing, and needs no request of the key before it.
  for (let n = 0; n < 2; n += 1) {
    expect(await left()).toEqual(["team 600 600", "team-month 1000 1000", "key-day 2 2"]);
  }
  // Without the token it takes one, until the quota has none left.
  const asKey = { KEYRUN_URL: keyrun.publicUrl };
  for (const used of [1, 2, 2]) {
    const rest = [`team 600 ${600 - used}`, `team-month 1000 ${1_000 - used}`, `key-day 2 ${2 - used}`];
    expect(await left(asKey)).toEqual(rest);
  }
  await run(["teams", "grant", teamId, "50"]);
  const { stdout } = await run(["limit"], { KEYRUN_API_KEY: value });
  const rows = stdout.split("\n").map((line) => line.split(/ {2,}/));
  expect(rows).toEqual([
    ["LIMIT OF", "REQUESTS", "IN A", "LEFT", "MORE IN"],
    ["team", "600", "minute", "598", expect.stringMatching(/^\d+ s$/)],
    ["team", "1050", "month", expect.stringMatching(/^10\d\d$/), expect.stringMatching(/^\d+ [hs]$/)],
    ["key", "2", "day", "0", expect.stringMatching(/^\d+ [hs]$/)],
    [""],
  ]);
});

test("teams grant raises the present period, and once where it is repeated with its request id", async () => {
  const teamId = await keyrun.newTeam();
  const grant = (...more: string[]) => run(["teams", "grant", teamId, ...more]);
  const words = (granted: number) =>
    `The quota of team ${teamId} is 3 a day: 0 used, ${granted} more granted, resets at `;
  for (let n = 0; n < 2; n += 1) {
    const { code, stdout } = await grant("2", "--request-id", requestId);
    expect([code, stdout.startsWith(words(2))]).toEqual([0, true]);
  }
  expect((await grant("5")).stdout).toMatch(/ 7 more granted, resets at \d{4}-\d\d-\d\dT00:00:00Z\.\n$/);
  expect(JSON.parse((await grant("1", "--json")).stdout).quota).toMatchObject({ limit: "3", granted: "8" });
});

const day = "--requests-per-day";
const month = "--requests-per-month";

test.each([
  ...["0", "-1", "1.5", "ten", "1e3", "1000000000001", "9".repeat(40)].flatMap((requests) => [
    [
      ["teams", "grant", "demo", "--", requests],
      2,
      "<requests> must be a whole number from 1 to 1000000000000, like 1000.",
    ] as const,
    [
      ["keys", "create", "--team", "demo", `${day}=${requests}`],
      2,
      `${day} must be a whole number from 1 to 1000000000000, like 1000.`,
    ] as const,
  ]),
  [
    ["keys", "create", "--team", "demo", `${month}=0`],
    2,
    `${month} must be a whole number from 1 to 1000000000000, like 1000.`,
  ],
  [
    ["keys", "create", "--team", "demo", day, "1", month, "1"],
    2,
    `A key has one quota: give ${day} or ${month}.`,
  ],
  [["teams", "grant", "demo", "1", "--request-id", "once"], 2, "--request-id must be a UUID, or empty."],
  [["teams", "grant", "nowhere", "1"], 1, "There is no team `nowhere`. Teams: "],
] as const)("%j is refused in words that say what to do", async (argv, code, words) => {
  const refused = await run(argv);
  expect(refused).toMatchObject({ code, stdout: "" });
  expect(refused.stderr.startsWith(words), refused.stderr).toBe(true);
});

test("a grant to a team whose plan has no quota names the setting", async () => {
  const { code, stderr } = await run(["teams", "grant", await keyrun.newTeam(Plan.PRO), "1"]);
  expect([code, stderr]).toEqual([
    1,
    expect.stringMatching(/has no quota.* KEYRUN_PLAN_QUOTAS sets the quotas/),
  ]);
});
