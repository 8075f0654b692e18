import { beforeEach, expect, test } from "vitest";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { runCommand } from "../harness/command-line.ts";
import { untilHourHasRoom } from "../harness/hour-border.ts";
import { startKeyrun } from "../harness/keyrun.ts";

const keyrun = closedAtEnd(await startKeyrun({ settings: { KEYRUN_PLAN_LIMITS: "free=3" } }));

// All requests of a test are in one hour.
beforeEach(untilHourHasRoom, 300_000);

const usage = (args: readonly string[], columns?: number) =>
  runCommand(["usage", ...args], {
    env: { KEYRUN_DATA_DIR: keyrun.config.dataDir },
    ...(columns !== undefined && { columns }),
  });

async function usedKey() {
  const key = await keyrun.newKey(await keyrun.newTeam());
  for (let n = 0; n < 5; n++) await keyrun.keys.verifyKey({ value: key.value });
  return key;
}

test("usage shows the steps with a request, their totals and a bar, by hour and by day", async () => {
  const { teamId, id } = await usedKey();
  for (const args of [
    ["--since", "12h"],
    ["--step", "day"],
    ["--since", "7d", "--key", `svc_${id}`],
  ]) {
    const { code, stdout, stderr } = await usage(["--team", teamId, ...args]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const [head = "", ...lines] = stdout.trimEnd().split("\n");
    expect(head).toMatch(/^(HOUR|DAY \(UTC\)) +ACCEPTED {2}LIMITED {2}FAILED {2}APP TIME$/);
    expect(lines.at(0)).toMatch(/^20\d\d-\d\d-\d\d(T\d\d:00:00Z)? +3 +2 +0 +0\.0 s +█{20}$/);
    expect(lines.at(-1)).toMatch(/^TOTAL +3 +2 +0 +0\.0 s$/);
  }
});

test("a narrow terminal has no bars, and a key without a request has no table", async () => {
  const { teamId } = await usedKey();
  const { stdout } = await usage(["--team", teamId], 60);
  expect(stdout).toContain("TOTAL");
  expect(stdout).not.toContain("█");
  const unused = await keyrun.newKey(teamId);
  const none = await usage(["--team", teamId, "--key", unused.id]);
  expect(none.stdout).toMatch(/^No requests since 20\d\d-\d\d-\d\dT\d\d:00:00Z\.\n$/);
});

test("--json prints the answer, with a point for each hour", async () => {
  const { teamId } = await usedKey();
  const { stdout } = await usage(["--team", teamId, "--json"]);
  const { points } = JSON.parse(stdout);
  expect(points.length).toBe(25);
  expect(points.at(-1)).toMatchObject({ acceptedCount: "3", limitedCount: "2" });
});

test("wrong use says what to write, and repeats no part of a key", async () => {
  const { teamId, value } = await usedKey();
  const since = await usage(["--team", teamId, "--since", "week"]);
  expect(since).toMatchObject({ code: 2, stdout: "" });
  expect(since.stderr).toContain("--since must be a number of days, hours or minutes");
  const cut = await usage(["--team", teamId, "--key", value.slice(10)]);
  expect(cut.code).toBe(2);
  expect(cut.stderr).not.toContain(value.slice(-10));
  const whole = await usage(["--team", teamId, "--key", value]);
  expect(whole.code).toBe(0);
  expect(whole.stdout).toContain("TOTAL");
  const other = await usage(["--team", "demo", "--key", value]);
  expect(other.code).toBe(1);
  expect(other.stdout + other.stderr).not.toContain(value.split(".")[1]);
});
