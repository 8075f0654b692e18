import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { closedAtEnd, tempFolders } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { repository } from "../harness/keyrun-process.ts";

// People wait for each command, and what it loads is nearly all of its time.

const folders = tempFolders();

const keyrun = closedAtEnd(await startKeyrun());

/** The files that a command loads, from the root of the repository, and its exit status. */
async function loadedBy(...argv: string[]): Promise<{ code: number; files: string[] }> {
  const folder = folders.create();
  const [hook, record] = [join(folder, "hook.mjs"), join(folder, "loaded")];
  writeFileSync(record, "");
  writeFileSync(
    hook,
    `import { appendFileSync } from "node:fs";
     import { registerHooks } from "node:module";
     registerHooks({ load(url, context, next) {
       appendFileSync(${JSON.stringify(record)}, url + "\\n");
       return next(url, context);
     } });`,
  );
  const args = ["--import", pathToFileURL(hook).href, join(repository, "bin/keyrun.mjs"), ...argv];
  const env = { PATH: process.env.PATH, KEYRUN_DATA_DIR: keyrun.config.dataDir };
  const code = await new Promise<number>((resolve) => {
    execFile(process.execPath, args, { env }, (error) => resolve(error === null ? 0 : Number(error.code)));
  });
  const urls = readFileSync(record, "utf8")
    .split("\n")
    .filter((url) => url.startsWith("file:"));
  return { code, files: urls.map((url) => relative(repository, fileURLToPath(url))) };
}

/** The packages, and the folders and files at the top of `src/`. */
function partsOf(files: readonly string[]): string[] {
  const parts = files.map(
    (file) => /^(?:node_modules\/(?:@[^/]+\/)?[^/]+|src\/[^/]+|[^/]+)/.exec(file)?.[0] ?? file,
  );
  return [...new Set(parts)].sort();
}

/** What every command loads of the two folders at the bottom of the source. */
const wordsNeed = ["src/base/clock.ts", "src/base/program.ts", "src/log/redaction.ts"];
const isOfBaseOrLog = (file: string) => /^src\/(?:base|log)\//.test(file);

test("keys list loads its client and the settings, and nothing of the server", async () => {
  const { code, files } = await loadedBy("keys", "list", "--team", "demo");
  expect(code).toBe(0);
  expect(partsOf(files)).toEqual([
    "bin",
    "node_modules/commander",
    "node_modules/zod",
    "src/auth",
    "src/base",
    "src/cli",
    "src/log",
    "src/main.ts",
    "src/settings",
  ]);
  expect(files.filter(isOfBaseOrLog).sort()).toEqual(wordsNeed);
  expect(files.filter((file) => file.startsWith("src/auth/"))).toEqual(["src/auth/principal.ts"]);
});

test.each([
  [["--help"]],
  [["keys", "create", "--help"]],
  [["--version"]],
  [["completion", "bash"]],
  [["complete", "--", "keys", ""]],
])("%j loads the words of the commands alone", async (argv) => {
  const { code, files } = await loadedBy(...argv);
  expect(code).toBe(0);
  expect(partsOf(files)).toEqual([
    "bin",
    "node_modules/commander",
    "src/base",
    "src/cli",
    "src/log",
    "src/main.ts",
    "src/settings",
  ]);
  expect(files.filter(isOfBaseOrLog).sort()).toEqual(wordsNeed);
  expect(files.filter((file) => file.startsWith("src/settings/"))).toEqual(["src/settings/config.ts"]);
});
