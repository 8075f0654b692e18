import { join, resolve } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { closedAtEnd, tempFolders } from "../harness/closed-at-end.ts";
import { type Circumstances, runCommand } from "../harness/command-line.ts";
import { startKeyrun } from "../harness/keyrun.ts";

const folders = tempFolders();

const keyrun = closedAtEnd(await startKeyrun());
await keyrun.teams.createTeam({ team: { id: "acme" } });

const run = (argv: readonly string[], { env, ...others }: Circumstances = {}) =>
  runCommand(argv, { env: { KEYRUN_DATA_DIR: keyrun.config.dataDir, ...env }, ...others });

const email = "ada@example.com";
const backend = ["--backend", "http", "--url", "http://127.0.0.1:9000"];

test.each([
  ["keys list --team acmee", "There is no team `acmee`. Did you mean `acme`? Teams: acme, demo."],
  ["keys list --team Acme!", "There is no such team. Teams: acme, demo."],
  ["keys create --team zzz", "There is no team `zzz`. Teams: acme, demo."],
  [`members add zzz ${email}`, "There is no team `zzz`. Teams: acme, demo."],
  ["members list zzz", "There is no team `zzz`. Teams: acme, demo."],
  ["teams set-plan zzz pro", "There is no team `zzz`. Teams: acme, demo."],
  ["apps delete ech --yes", "There is no app `ech`. Did you mean `echo`? Apps: echo."],
  ["apps show zzz", "There is no app `zzz`. Apps: echo."],
  ["apps update zzz --name x", "There is no app `zzz`. Apps: echo."],
  ["apps create x --backend echo --team zzz", "There is no team `zzz`. Teams: acme, demo."],
  [
    "apps create echo --backend echo",
    "There is already an app `echo`. Choose another id, or change it with `./keyrun apps update echo`.",
  ],
])("%s names what it is about, and what there is", async (command, sentence) => {
  expect(await run(command.split(" "))).toEqual({ code: 1, stdout: "", stderr: `${sentence}\n` });
});

test("of many teams, a few are named, and the command that lists all", async () => {
  const many = await startKeyrun();
  onTestFinished(() => many.close());
  for (let n = 0; n < 12; n++)
    await many.teams.createTeam({ team: { id: `team-${String(n).padStart(2, "0")}` } });
  const { stderr } = await runCommand(["keys", "list", "--team", "zzz"], {
    env: { KEYRUN_DATA_DIR: many.config.dataDir },
  });
  expect(stderr).toMatch(
    /^There is no team `zzz`\. Teams: demo, team-00, .*team-08 and others: `\.\/keyrun teams list` lists all\.\n$/,
  );
});

test.each<[string[], string]>([
  [["keys", "create", "--team", "demo", "--label", "a\u0007b"], "--label"],
  [["keys", "create", "--team", "demo", "--label", "x".repeat(129)], "--label"],
  [["keys", "list", "--team", "demo", "--search", "x".repeat(129)], "--search"],
  [["teams", "create", "ACME"], "<team_id>"],
  [["teams", "create", "x", "--name", "y".repeat(129)], "--name"],
  [["members", "add", "demo", "nobody"], "<email>"],
  [["members", "remove", "demo", "nobody"], "<email>"],
  [["preview", "grant", "nobody"], "<email>"],
  [["apps", "create", "UP", "--backend", "echo"], "<app_id>"],
  [["apps", "create", "x", "--backend", "http", "--url", "ftp://x"], "--url"],
  [["apps", "create", "x", ...backend, "--header", "a b: c"], "--header"],
  [["apps", "create", "x", ...backend, "--header", "Host: c"], "--header"],
  [["apps", "create", "x", "--backend", "grpc", "--target", "nowhere"], "--target"],
  [["apps", "create", "x", "--backend", "echo", "--timeout", "601s"], "--timeout"],
  [["apps", "create", "x", "--backend", "echo", "--stream-timeout", "3601s"], "--stream-timeout"],
  [["apps", "create", "x", "--backend", "echo", "--background-timeout", "3601s"], "--background-timeout"],
  [["apps", "update", "echo", "--name", "y".repeat(129)], "--name"],
  [["apps", "create", "x", ...backend, ...Array(33).fill("--header=a: b")], "--header"],
  [["apps", "create", "x", "--backend", "echo", "--team", "ACME"], "--team"],
  [["keys", "create", "--team", "demo", "--app", "no-such-app"], "--app"],
  [["keys", "create", "--team", "demo", "--requests-per-minute", "999999999"], "--requests-per-minute"],
  [["keys", "create", "--team", "demo", "--expires", "99999d"], "--expires"],
  [["keys", "rotate", "--team", "demo", "0".repeat(24), "--overlap", "31d"], "--overlap"],
  [["keys", "update", "--team", "demo", "0".repeat(24), "--expires", "99999d"], "--expires"],
  [["service-tokens", "create", "UP", "--role", "verify"], "<name>"],
  [["service-tokens", "create", "local", "--role", "verify"], "<name>"],
  [["service-tokens", "create", "x", "--role", "manage", "--team", "UP"], "--team"],
  [["usage", "--team", "demo", "--since", "99999d"], "--since"],
  [["usage", "--team", "demo", "--since", "999d", "--step", "hour"], "--since"],
])("%j is wrong use, told by the option or argument at fault", async (argv, name) => {
  const { code, stdout, stderr } = await run(argv);
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr.startsWith(name)).toBe(true);
  expect(stderr).not.toMatch(/\b(app|team|backend)\.\w|\b[a-z]+_[a-z_]+\b(?!>)/);
});

test("--team may be left out where there is one team, and else the teams are named", async () => {
  const one = await startKeyrun();
  onTestFinished(() => one.close());
  const env = { KEYRUN_DATA_DIR: one.config.dataDir };
  const created = await runCommand(["keys", "create"], { env });
  expect(created.stderr).toContain("of team demo is created.");
  expect(await runCommand(["keys", "list"], { env })).toMatchObject({ code: 0 });
  const id = created.stdout.slice("svc_".length).split(".")[0]!;
  expect(await runCommand(["keys", "revoke", id], { env })).toMatchObject({ code: 0 });
  for (const command of [
    ["keys", "create"],
    ["keys", "list"],
    ["keys", "revoke", id],
  ]) {
    expect(await run(command)).toEqual({
      code: 2,
      stdout: "",
      stderr: "Say which team with --team. Teams: acme, demo.\n",
    });
  }
});

test("a data folder is named by its whole path", async () => {
  const name = `nowhere-${process.pid}`;
  const { stderr } = await runCommand(["teams", "list"], { env: { KEYRUN_DATA_DIR: name } });
  expect(stderr).toContain(` ${resolve(name)}: `);
  const empty = folders.create();
  const settings = { KEYRUN_DATA_DIR: empty, KEYRUN_GRPC_PORT: "1" };
  expect((await runCommand(["teams", "list"], { env: settings })).stderr).toContain(` ${join(empty)}: `);
});

test.each([
  [["key", "list"], "keys"],
  [["keys", "lst"], "list"],
  [["keys", "create", "--lable", "x"], "--label"],
])("%j is told with what was meant", async (argv, meant) => {
  const { code, stderr } = await run(argv);
  expect(code).toBe(2);
  expect(stderr).toContain(`Did you mean ${meant}?`);
});
