import { expect, test } from "vitest";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { type Circumstances, runCommand } from "../harness/command-line.ts";
import { startKeyrun } from "../harness/keyrun.ts";

const keyrun = closedAtEnd(await startKeyrun());

const run = (argv: readonly string[], circumstances: Circumstances = {}) =>
  runCommand(argv, { env: { KEYRUN_DATA_DIR: keyrun.config.dataDir }, ...circumstances });
await run(["apps", "create", "words", "--backend", "echo"]);

test("a key is created with its apps and its limit, and a list shows both", async () => {
  const { teamId } = await keyrun.newKey(await keyrun.newTeam());
  const limits = ["--app", "echo", "--app", "words", "--requests-per-minute", "10"];
  const created = await run(["keys", "create", "--team", teamId, "--label", "kiosk", ...limits]);
  expect([created.code, created.stdout]).toEqual([0, expect.stringMatching(/^svc_\S+\n$/)]);
  await run(["keys", "create", "--team", teamId, "--app", "echo"]);
  const listed = await run(["keys", "list", "--team", teamId]);
  expect(listed.stdout.split("\n").map((line) => line.split(/ {2,}/)[0])).toEqual([
    ...["LABEL", "-", "kiosk", "-", ""],
  ]);
  expect(listed.stdout.split("\n").map((line) => line.split(/ {2,}/)[1])).toEqual([
    ...["ONLY", "echo", "2 apps, 10/min"],
    ...[expect.stringMatching(/^svc_/), undefined],
  ]);
  const json = await run(["keys", "list", "--team", teamId, "--json"]);
  expect(JSON.parse(json.stdout).keys).toMatchObject([
    { appIds: ["echo"] },
    { appIds: ["echo", "words"], requestsPerMinute: 10 },
    {},
  ]);
});

test("a restriction is seen beside the longest label in a narrow terminal", async () => {
  const teamId = await keyrun.newTeam();
  const label = "l".repeat(128);
  await run(["keys", "create", "--team", teamId, "--label", label, "--app", "echo"]);
  const { stdout } = await run(["keys", "list", "--team", teamId], { columns: 80 });
  expect(stdout).toMatch(/^l+… +echo +/m);
  expect(stdout).not.toContain("STATE");
});

test("a state is shown where keys differ in it, and a search that fits nothing says so", async () => {
  const teamId = await keyrun.newTeam();
  const { id } = await keyrun.newKey(teamId);
  await run(["keys", "create", "--team", teamId, "--expires", "90d"]);
  const list = (...options: string[]) => run(["keys", "list", "--team", teamId, ...options]);
  expect((await list()).stdout).toMatch(/^LABEL(?!.*STATE).*EXPIRES/);
  await run(["keys", "update", "--team", teamId, id, "--expires", "2001-01-01"]);
  expect((await list("--revoked")).stdout).toMatch(/^LABEL.*STATE.*EXPIRES/);
  expect((await list("--search", "nothing")).stderr).toContain(
    "No active key of the team fits --search. --revoked looks among ended keys, too.\n",
  );
  expect((await list("--search", "nothing", "--revoked")).stderr).toContain(
    "No key of the team fits --search.\n",
  );
  expect((await list("--unused-for", "90d")).stderr).toContain(
    "No active key of the team was unused for 90d.\n",
  );
});

test.each([
  [["--app", "nowhere"], /^--app: team `demo` has no app `nowhere`\.\n/],
  [["--requests-per-minute", "61"], /^--requests-per-minute must be from 1 to the plan's limit, 60\.\n/],
  [["--requests-per-minute", "0"], /^--requests-per-minute must be a whole number/],
  [["--requests-per-minute", "ten"], /^--requests-per-minute must be a whole number/],
])("what a key can't be restricted to is named by its option: %j", async (options, words) => {
  const { code, stdout, stderr } = await run(["keys", "create", "--team", "demo", ...options]);
  expect([code, stdout]).toEqual([2, ""]);
  expect(stderr).toMatch(words);
});

test("a restricted key is good for its app alone, and to look spends nothing", async () => {
  const { value } = await keyrun.newKey(await keyrun.newTeam(), { appIds: ["echo"] });
  const verify = (...options: string[]) => run(["keys", "verify", ...options], { stdin: [`${value}\n`] });
  expect(await verify("--app", "echo")).toMatchObject({ code: 0, stdout: "VALID\n" });
  for (const options of [["--app", "words"], []]) {
    expect(await verify(...options)).toMatchObject({ code: 1, stdout: "APP_NOT_ALLOWED\n" });
  }
  const json = JSON.parse((await verify("--app", "echo", "--json")).stdout);
  expect(json.rateLimit).toMatchObject({ limit: 60, remaining: 60 });
});
