import { expect, test } from "vitest";
import { startWords } from "#src/app/start-words.ts";

const at = {
  publicUrl: "http://127.0.0.1:8080",
  grpcAddress: "127.0.0.1:8081",
  screen: { kind: "off" },
  isOnTerminal: false,
  isTokenSet: false,
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

test("where the token is a setting, the words say that commands need it: the data folder has none", () => {
  const of = (teamId: string | undefined) =>
    startWords({ ...at, teamId, command: "./keyrun", isTokenSet: true });
  const shell = "In a shell with the KEYRUN_SERVICE_TOKEN or KEYRUN_SERVICE_TOKEN_FILE of this Keyrun, make";
  expect(of("acme")).toContain(`\n${shell} a key, which is shown this once:\n`);
  expect(of(undefined)).toContain(`\n${shell} the first team, and a key for it, which is shown this once:\n`);
});

test("a link is made only for the terminal that shows it, and elsewhere the words say how to make one", () => {
  let links = 0;
  const newLink = () => `http://127.0.0.1:8080/sign-in/link#code=${++links}`;
  const screen = { kind: "open", url: at.publicUrl, newLink } as const;
  const of = (isOnTerminal: boolean) =>
    startWords({ ...at, screen, isOnTerminal, teamId: "demo", command: "/opt/keyrun/keyrun" });
  expect(of(false)).toContain("\n  /opt/keyrun/keyrun sign-in-link\n");
  expect(links).toBe(0);
  expect(of(true)).toContain("\n  http://127.0.0.1:8080/sign-in/link#code=1\n");
});
