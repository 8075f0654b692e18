import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { closedAtEnd } from "../../harness/closed-at-end.ts";
import { runCommand } from "../../harness/command-line.ts";
import { startKeyrun } from "../../harness/keyrun.ts";

const keyrun = closedAtEnd(await startKeyrun());
await keyrun.teams.createTeam({ team: { id: "acme" } });

async function complete(words: string[], env: Record<string, string> = {}) {
  const all = { KEYRUN_DATA_DIR: keyrun.config.dataDir, ...env };
  const { code, stdout, stderr } = await runCommand(["complete", "--", ...words], { env: all });
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return stdout
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => line.split(" ")[0]!);
}

test.each<[string, string[], string[]]>([
  ["commands", ["te"], ["teams"]],
  ["the commands of a group", ["teams", ""], ["create", "list", "set-plan", "delete", "help"]],
  ["options", ["keys", "verify", "--"], ["--json", "--app", "--help"]],
  ["an option that may be repeated, again", ["apps", "create", "x", "--team", "demo", "--tea"], ["--team"]],
  ["the choices of an option", ["apps", "create", "x", "--backend", ""], ["echo", "http", "grpc", "guard"]],
  ["the choices of an argument", ["teams", "set-plan", "demo", "p"], ["pro"]],
  ["teams for --team", ["keys", "list", "--team", ""], ["acme", "demo"]],
  ["teams for --team=, as bash hands it over", ["keys", "list", "--team", "=", "a"], ["acme"]],
  ["teams for <team_id>", ["members", "add", "d"], ["demo"]],
  ["teams after an option", ["members", "list", "--json", ""], ["acme", "demo"]],
  ["apps for <app_id>", ["apps", "show", ""], ["echo"]],
  ["apps for --app", ["keys", "verify", "--app", ""], ["echo"]],
  ["shells", ["completion", "z"], ["zsh"]],
])("it offers %s", async (_, words, offered) => {
  const got = await complete(words);
  expect(got).toEqual(expect.arrayContaining(offered));
  if (!words.includes("teams")) expect(got).toHaveLength(offered.length);
});

test.each<[string, string[]]>([
  ["an option that is there", ["keys", "create", "--label", "x", "--lab"]],
  ["ids for an id that is new", ["teams", "create", ""]],
  ["what takes any text", ["keys", "create", "--label", ""]],
  ["more arguments than there are", ["apps", "show", "echo", ""]],
  ["itself, which is for shells", ["complet"]],
])("it does not offer %s", async (_, words) => {
  expect((await complete(words)).filter((word) => word !== "completion")).toEqual([]);
});

test("a server that never answers is left after a second, without a word", async () => {
  const silent = createServer(() => {}).listen(0, "127.0.0.1");
  await once(silent, "listening");
  onTestFinished(() => void silent.close());
  const { port } = silent.address() as AddressInfo;
  expect(await complete(["keys", "list", "--team", ""], { KEYRUN_GRPC_PORT: String(port) })).toEqual([]);
});

test("wrong settings and an absent server are nothing to complete", async () => {
  for (const env of [{ KEYRUN_PORT: "x" }, { KEYRUN_GRPC_PORT: "1" }, { KEYRUN_DATA_DIR: "/nowhere" }]) {
    expect(await complete(["keys", "list", "--team", ""], env)).toEqual([]);
  }
});
