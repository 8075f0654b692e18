import { stripVTControlCharacters } from "node:util";
import stringWidth from "string-width";
import { expect, onTestFinished, test } from "vitest";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { type Circumstances, runCommand } from "../harness/command-line.ts";
import { startKeyrun } from "../harness/keyrun.ts";

let run: (argv: readonly string[], circumstances?: Circumstances) => ReturnType<typeof runCommand>;

const keyrun = closedAtEnd(await startKeyrun());
const dataDir = keyrun.config.dataDir;
run = (argv, { env, ...others } = {}) =>
  runCommand(argv, { env: { KEYRUN_DATA_DIR: dataDir, ...env }, ...others });

const coloured = (text: string) => text.includes("\u001b[");
const linesOf = (text: string) => text.trimEnd().split("\n");

test("colours are for terminals that have them, and for whoever forces them", async () => {
  const cases: [Circumstances, boolean][] = [
    [{}, false],
    [{ columns: 100 }, true],
    [{ columns: 100, env: { TERM: "dumb" } }, false],
    [{ columns: 100, env: { NO_COLOR: "1" } }, false],
    [{ columns: 100, env: { NO_COLOR: "" } }, true],
    [{ env: { FORCE_COLOR: "1" } }, true],
    [{ columns: 100, env: { FORCE_COLOR: "0" } }, false],
    [{ env: { FORCE_COLOR: "1", NO_COLOR: "1" } }, false],
  ];
  for (const [circumstances, expected] of cases) {
    const list = await run(["teams", "list"], circumstances);
    const help = await run(["--help"], circumstances);
    const wrong = await run(["nope"], circumstances);
    const refused = await run(["keys", "list", "--team", "nope"], circumstances);
    const told = [list.stdout, help.stdout, wrong.stderr, refused.stderr].map(coloured);
    expect(told, JSON.stringify(circumstances)).toEqual([expected, expected, expected, expected]);
  }
});

test("JSON, a created key and a sign-in link never have colours", async () => {
  const circumstances = { columns: 100, env: { FORCE_COLOR: "1" } };
  for (const argv of [["keys", "create", "--team", "demo"], ["sign-in-link"], ["teams", "list", "--json"]]) {
    expect(coloured((await run(argv, circumstances)).stdout)).toBe(false);
  }
});

test("tables fit 80 columns whatever the labels are, and a pipe gets everything", async () => {
  const teamId = await keyrun.newTeam();
  const labels = [
    "x".repeat(128),
    "日本語".repeat(40),
    "👩‍👩‍👧‍👦 family 🗝️".repeat(7),
    "é".normalize("NFD").repeat(60),
    "ok",
  ];
  for (const label of labels) await keyrun.keys.createKey({ teamId, label });
  const { keys } = await keyrun.keys.listKeys({ teamId });
  await keyrun.keys.revokeKey({ teamId, keyId: keys[0]!.id });
  const argv = ["keys", "list", "--team", teamId, "--revoked"];
  for (const columns of [60, 80, 100, 120, 200]) {
    const lines = linesOf((await run(argv, { columns, env: { NO_COLOR: "1" } })).stdout);
    expect(lines).toHaveLength(1 + labels.length);
    const begin = lines[0]!.indexOf("ID");
    for (const line of lines) expect(stringWidth(line)).toBeLessThanOrEqual(columns);
    for (const line of lines.slice(1)) {
      const { id = "" } = keys.find((key) => line.includes(key.id)) ?? {};
      expect(stringWidth(line.split(id)[0]!)).toBe(begin);
    }
  }
  const { stdout } = await run(argv);
  for (const text of [...labels, ...keys.map(({ id }) => id)]) expect(stdout).toContain(text);
});

test("in a narrow terminal times keep their minutes, and what is left out is said, and can be had", async () => {
  const teamId = await keyrun.newTeam();
  await keyrun.keys.createKey({ teamId, label: "ci" });
  const argv = ["keys", "list", "--team", teamId, "--revoked"];
  const show = (columns: number, ...options: string[]) =>
    run([...argv, ...options], { columns, env: { NO_COLOR: "1" } });
  const headsOf = (text: string) => linesOf(text)[0]!.split(/ {2,}/);
  const all = headsOf((await run(argv)).stdout);
  for (const columns of [60, 80, 120]) {
    const { stdout, stderr } = await show(columns);
    const hidden = /hidden: (.+)\. See all with --wide/.exec(stderr)?.[1]?.split(", ") ?? [];
    expect(hidden.length > 0).toBe(columns < 120);
    expect([...headsOf(stdout), ...hidden].sort()).toEqual([...all].sort());
    const wide = await show(columns, "--wide");
    expect(headsOf(wide.stdout)).toEqual(all);
    expect(wide.stderr).not.toContain("hidden");
  }
  const chosen = await show(40, "--columns", "created, Revoked-By");
  expect(linesOf(chosen.stdout)).toEqual([
    expect.stringMatching(/^CREATED +REVOKED BY$/),
    expect.stringMatching(/^20\d\d-\d\d-\d\dT\d\d:\d\d(:\d\d)?Z$/),
  ]);
  const short = await show(25, "--columns", "created,by");
  expect(linesOf(short.stdout)[1]).toMatch(/^20\d\d-\d\d-\d\dT\d\d:\d\dZ {2}/);
  const wrong = await show(80, "--columns", "created,secret");
  expect([wrong.code, wrong.stdout]).toEqual([2, ""]);
  expect(wrong.stderr).toContain("--columns takes some of label,key,id,created,");
});

test("a terminal that is too narrow for every cut gets whole lines rather than none", async () => {
  const { stdout } = await run(["teams", "list"], { columns: 10, env: { NO_COLOR: "1" } });
  expect(linesOf(stdout).length).toBeGreaterThan(1);
  expect(stdout).toContain("demo");
});

test("control characters of an argument are never printed raw", async () => {
  const argument = "\u001b]0;title\u0007\u009b31m\u202eevil";
  for (const columns of [undefined, 100]) {
    const { stdout, stderr } = await run([argument], columns === undefined ? {} : { columns });
    expect(stripVTControlCharacters(stdout + stderr).replaceAll("\n", "")).not.toMatch(/[\p{Cc}\u202e]/u);
    expect(stderr).toContain("evil");
  }
});

test("control characters that a server sends are escaped in JSON, and replaced in a table", async () => {
  const { createServer } = await import("node:http");
  const id = "a\u001b[2Jb\u009bc\u202ed\u200ee";
  const server = createServer((_, response) => {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ teams: [{ id, displayName: "x" }] }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const address = server.address();
  const port = typeof address === "object" ? String(address?.port) : "";
  const env = { KEYRUN_GRPC_PORT: port, KEYRUN_SERVICE_TOKEN: "x".repeat(32) };
  const table = await run(["teams", "list"], { env, columns: 100 });
  expect(stripVTControlCharacters(table.stdout)).toContain("a�[2Jb�c�d");
  const json = await run(["teams", "list", "--json"], { env });
  expect(json.stdout).toContain("a\\u001b[2Jb\\u009bc\\u202ed\\u200ee");
  expect(JSON.parse(json.stdout).teams[0].id).toBe(id);
});
