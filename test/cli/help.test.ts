import { readFileSync } from "node:fs";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { expect, test } from "vitest";
import { everyCommand as everyCommandOfTree, runCommand } from "../harness/command-line.ts";
import { repository } from "../harness/keyrun-process.ts";

/** The commands that the help of these words lists. */
async function commandsOf(...words: string[]): Promise<string[]> {
  const { stdout } = await runCommand([...words, words.length === 0 ? "--help-all" : "--help"]);
  return listedIn(stdout);
}

/** Behind the options and before the examples, under whatever title. */
function listedIn(help: string): string[] {
  const [, list = ""] = /print this help\n([\s\S]*?)(?:\nExamples?:|$)/.exec(help) ?? [];
  return [...list.matchAll(/^ {2}([a-z-]+)/gm)]
    .map(([, name = ""]) => name)
    .filter((name) => name !== "help");
}

/** Every command, with the words that lead to it. */
async function everyCommand(): Promise<string[][]> {
  const found: string[][] = [];
  for (const name of await commandsOf()) {
    const inner = await commandsOf(name);
    found.push([name], ...inner.map((each) => [name, each]));
  }
  return found;
}

test("every command's help has an example that the command line takes", async () => {
  const commands = await everyCommand();
  expect(commands.length).toBeGreaterThan(20);
  for (const words of [[], ...commands]) {
    const { code, stdout } = await runCommand([...words, "--help"]);
    expect(code).toBe(0);
    const [, ...examples] = stdout.split(/\nExamples?:\n/)[1]?.split("./keyrun ") ?? [];
    expect(examples.length, words.join(" ")).toBeGreaterThan(0);
    if (words.length > 0)
      for (const example of examples) expect(example.startsWith(words.join(" "))).toBe(true);
  }
});

test("help shows first what a newcomer needs, and --help-all every command", async () => {
  const { stdout } = await runCommand(["--help"]);
  const first = listedIn(stdout);
  expect(first).toEqual(expect.arrayContaining(["serve", "keys", "run", "apps", "sign-in-link", "doctor"]));
  for (const late of ["secrets", "restore", "copy-to-mongodb", "fleet"]) expect(first).not.toContain(late);
  expect(stdout).toContain("--help-all");
  const roots = everyCommandOfTree().map((words) => words.split(" ")[0]);
  const shown = new Set(roots.filter((name) => name !== "complete"));
  expect((await commandsOf()).sort()).toEqual([...shown].sort());
  expect((await runCommand(["--help-all"])).code).toBe(0);
});

test("help marks what is required, lists choices, and has no empty default", async () => {
  const { stdout } = await runCommand(["apps", "create", "--help"]);
  const flat = stdout.replace(/\s+/g, " ");
  expect(flat).toContain(
    "--backend <kind> where a run is sent; guard: a service that a proxy protects (required) (one of: echo, http, grpc, guard)",
  );
  expect(flat).not.toContain("[]");
});

test("--version and -V print the version of package.json", async () => {
  const { version } = JSON.parse(readFileSync(join(repository, "package.json"), "utf8"));
  for (const option of ["--version", "-V"]) {
    expect(await runCommand([option])).toEqual({ code: 0, stdout: `${version}\n`, stderr: "" });
  }
});

test("help fits the terminal, and a pipe gets 80 columns", async () => {
  for (const [columns, width] of [
    [60, 60],
    [undefined, 80],
  ] as const) {
    const { stdout } = await runCommand(
      ["apps", "create", "--help"],
      columns === undefined ? {} : { columns },
    );
    // The examples stand on lines of their own, to be copied.
    const [words = ""] = stripVTControlCharacters(stdout).split("\nExamples:");
    expect(words.length).toBeGreaterThan(500);
    for (const line of words.split("\n")) expect(line.length).toBeLessThanOrEqual(width);
  }
});
