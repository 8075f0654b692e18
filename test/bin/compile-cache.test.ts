import { execFile } from "node:child_process";
import { chmod, cp, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { repository } from "../harness/keyrun-process.ts";

let folder: string;
let installed: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "keyrun-cache-"));
  installed = join(folder, "node_modules");
  for (const part of [join(folder, "src"), installed]) await mkdir(part, { mode: 0o755 });
  await cp(join(repository, "bin"), join(folder, "bin"), { recursive: true });
  await writeFile(join(folder, "package.json"), '{"type":"module","engines":{"node":">=24.15"}}');
  await writeFile(join(folder, "src/main.ts"), "const words: string = 'ran'; console.log(words);");
});

afterEach(() => rm(folder, { recursive: true }));

function run(): Promise<string> {
  return new Promise((resolve, reject) => {
    const args = [join(folder, "bin/keyrun.mjs")];
    execFile(process.execPath, args, { env: {} }, (error, stdout, stderr) =>
      error ? reject(error) : resolve(stdout + stderr),
    );
  });
}

const cache = () => join(installed, ".cache/keyrun");

/** The names in the cache; none where there is no cache. */
async function kept(): Promise<string[]> {
  return readdir(cache(), { recursive: true }).catch(() => []);
}

test("compiled code is kept among the packages, in a folder of this user alone", async () => {
  expect(await run()).toBe("ran\n");
  const first = await kept();
  expect(first.length).toBeGreaterThan(1);
  expect(await run()).toBe("ran\n");
  expect(await kept()).toEqual(first);
});

test("a changed source is never run from the cache", async () => {
  await run();
  await writeFile(join(folder, "src/main.ts"), "const words: string = 'new'; console.log(words);");
  expect(await run()).toBe("new\n");
});

test("a folder that others can write to is not used", async () => {
  await mkdir(cache(), { recursive: true });
  for (const open of [cache(), dirname(cache()), installed]) {
    await chmod(open, 0o777);
    expect(await run()).toBe("ran\n");
    expect(await kept()).toEqual([]);
    await chmod(open, 0o755);
  }
});

test("a link in the folder's place is not followed", async () => {
  const elsewhere = join(folder, "elsewhere");
  await mkdir(elsewhere);
  await mkdir(join(installed, ".cache"));
  await symlink(elsewhere, cache());
  expect(await run()).toBe("ran\n");
  expect(await readdir(elsewhere)).toEqual([]);
});

test("where the cache can't be made, everything runs without it", async () => {
  await writeFile(join(installed, ".cache"), "a file");
  expect(await run()).toBe("ran\n");
});
