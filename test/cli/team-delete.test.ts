import { expect, test } from "vitest";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { runCommand } from "../harness/command-line.ts";
import { startKeyrun } from "../harness/keyrun.ts";

const keyrun = closedAtEnd(await startKeyrun());

const run = (...argv: string[]) => runCommand(argv, { env: { KEYRUN_DATA_DIR: keyrun.config.dataDir } });

test("a team is deleted once its keys are revoked, and until then the words say what to do", async () => {
  await run("teams", "create", "acme");
  await run("keys", "create", "--team", "acme");
  expect(await run("teams", "delete", "acme", "--yes")).toEqual({
    code: 1,
    stdout: "",
    stderr:
      "Team `acme` has active keys (1), so it was not deleted. Revoke them first: `./keyrun keys list --team acme` shows them.\n",
  });
  const [key] = (await keyrun.keys.listKeys({ teamId: "acme" })).keys;
  await run("keys", "revoke", "--team", "acme", key!.id);
  expect(await run("teams", "delete", "acme", "--yes")).toEqual({
    code: 0,
    stdout: "Team acme is deleted.\n",
    stderr: "",
  });
  expect(await run("teams", "delete", "acme", "--yes")).toEqual({
    code: 1,
    stdout: "",
    stderr: "There is no team `acme`. Teams: demo.\n",
  });
});

test.each([
  ["teams delete", "kept", "Team kept goes for ever, with its keys, members and usage."],
  ["apps delete", "kept", "App kept goes, and its runs in the background are cancelled."],
  ["secrets drop", "57e586e3", "The secret of version 57e586e3 goes from "],
])("%s asks on a terminal, and elsewhere takes --yes alone", async (words, target, question) => {
  await run("teams", "create", "kept");
  await run("apps", "create", "kept", "--backend", "echo");
  const argv = [...words.split(" "), target];
  const env = { KEYRUN_DATA_DIR: keyrun.config.dataDir };
  const piped = await runCommand(argv, { env, stdin: ["yes\n"] });
  expect([piped.code, piped.stdout]).toEqual([2, ""]);
  expect(piped.stderr).toContain(question);
  expect(piped.stderr).toMatch(/ Nobody can be asked here: say it with --yes\.\n$/);
  for (const typed of ["no\n", "\n", "yess\n"]) {
    const declined = await runCommand(argv, { env, stdin: [typed], isTyped: true });
    expect([declined.code, declined.stdout]).toEqual([1, ""]);
    expect(declined.stderr).toContain(question);
    expect(declined.stderr).toMatch(/ Type yes, then press Enter:\nNothing is changed\.\n$/);
  }
  const { code, stderr } = await runCommand(argv, { env, stdin: ["Yes\n"], isTyped: true });
  // No server may run while a secret is dropped.
  expect(code, stderr).toBe(words === "secrets drop" ? 1 : 0);
  expect(stderr).not.toContain("Nothing is changed");
});

test("a team that an app is limited to names the app, and how to limit it to others", async () => {
  await run("teams", "create", "beta");
  await run("apps", "create", "shout", "--backend", "echo", "--team", "beta");
  const { code, stderr } = await run("teams", "delete", "beta", "--yes");
  expect(code).toBe(1);
  expect(stderr).toBe(
    "Apps are limited to team `beta` (shout), so it was not deleted. Limit them to other teams with `./keyrun apps update <app_id> --team <team_id>`, or delete them.\n",
  );
});

test("keys list says who made a key, and who revoked it: here the command line", async () => {
  await run("teams", "create", "gamma");
  await run("keys", "create", "--team", "gamma");
  const [key] = (await keyrun.keys.listKeys({ teamId: "gamma" })).keys;
  await run("keys", "revoke", "--team", "gamma", key!.id);
  const { stdout } = await run("keys", "list", "--team", "gamma", "--revoked");
  expect(stdout.match(/the command line/g)).toHaveLength(2);
});
