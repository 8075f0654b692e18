import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { commandFrom, startWords } from "#src/app/start-words.ts";

const at = {
  publicUrl: "http://127.0.0.1:8080",
  grpcAddress: "127.0.0.1:8081",
  screen: { kind: "off" },
} as const;

test("the words name a team that exists, and say nothing about making one", () => {
  const words = startWords({ ...at, teamId: "acme", command: "./keyrun" });
  expect(words).toContain("  export KEYRUN_API_KEY=$(./keyrun keys create --team acme)\n");
  expect(words).not.toContain("teams create");
});

test("where there is no team, the words make one first and then a key for it", () => {
  const words = startWords({ ...at, teamId: undefined, command: "/opt/keyrun/keyrun" });
  expect(words).toContain(`
  /opt/keyrun/keyrun teams create my-team
  export KEYRUN_API_KEY=$(/opt/keyrun/keyrun keys create --team my-team)
`);
});

test("the command is short in Keyrun's own folder, and a whole path elsewhere that a shell reads as one word", () => {
  expect(commandFrom("/opt/keyrun", "/opt/keyrun/")).toBe("./keyrun");
  expect(commandFrom("/home/ada", "/opt/keyrun")).toBe("/opt/keyrun/keyrun");
  expect(commandFrom("/opt/keyrun/data", "/opt/keyrun")).toBe("/opt/keyrun/keyrun");
  for (const root of ["/opt/my keyrun", "/opt/ada's $HOME", "/opt/a;b"]) {
    const command = commandFrom("/", root);
    const said = spawnSync("sh", ["-c", `printf '%s' ${command}`], { encoding: "utf8" }).stdout;
    expect(said).toBe(`${root}/keyrun`);
  }
});
