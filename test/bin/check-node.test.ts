import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";
import { describeWith } from "../harness/needs.ts";
import { findOldNode } from "./old-node.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const { scripts }: { scripts: Record<string, string> } = JSON.parse(
  readFileSync(join(root, "package.json"), "utf8"),
);
const runTypeScript = Object.keys(scripts).filter((name) =>
  /\bvitest\b|\.ts\b|\bkeyrun\b/.test(scripts[name]!),
);
const oldNode = findOldNode();

// Like a clone where npm brought no Node, as on macOS.
const folder = mkdtempSync(join(tmpdir(), "keyrun-scripts-"));
mkdirSync(join(folder, "node_modules/commander"), { recursive: true });
for (const part of ["package.json", "bin", "keyrun"])
  cpSync(join(root, part), join(folder, part), { recursive: true });
afterAll(() => rmSync(folder, { recursive: true }));

test("every npm script that runs TypeScript looks at its Node first", () => {
  expect(runTypeScript).toEqual(expect.arrayContaining(["start", "test", "bench"]));
  const looks = /^(\. bin\/node\.sh && |exec \.\/keyrun )/;
  const others = runTypeScript.filter((name) => !looks.test(scripts[name]!));
  expect(others).toEqual([]);
});

test("a Node that is new enough goes on without a word", async () => {
  const checked = await run(process.execPath, [join(folder, "bin/check-node.mjs")]);
  expect(checked).toEqual({ code: 0, stdout: "", stderr: "" });
});

describeWith(oldNode === undefined ? "the PATH has no old Node" : undefined)("on an old Node alone", () => {
  test.each(runTypeScript)("npm run %s says in a sentence which one is needed, and exits 1", async (name) => {
    const { code, stdout, stderr } = await run("npm", ["run", "--silent", name]);
    expect(stderr).toMatch(
      /^Keyrun needs Node 24\.15 or newer, and this is Node [\d.]+\. Install Node 26.*\n$/,
    );
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  });
});

function run(command: string, args: readonly string[]) {
  const outside = (process.env.PATH ?? "").split(delimiter).filter((part) => !part.includes("node_modules"));
  const PATH = [...(oldNode === undefined ? [] : [dirname(oldNode)]), ...outside].join(delimiter);
  return new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
    execFile(command, args, { cwd: folder, env: { PATH, HOME: folder } }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}
