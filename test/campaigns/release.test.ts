import { execFile } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { appendFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { figure } from "../harness/campaigns.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { repository } from "../harness/keyrun-process.ts";

const folders = tempFolders();

// Without the image: its base comes from a registry of images, which not every machine reaches.
test("a release is built twice, and has the same bytes", { timeout: 600_000 }, async () => {
  const clone = join(folders.create(), "clone");
  const run = (program: string, ...args: string[]) =>
    promisify(execFile)(program, args, { cwd: clone, maxBuffer: 64 * 1024 * 1024 });
  await promisify(execFile)("git", ["clone", "--quiet", "--depth=1", `file://${repository}`, clone]);
  for (const [name, value] of [
    ["user.name", "A"],
    ["user.email", "a@example.com"],
  ] as const)
    await run("git", "config", name, value);
  /** Throws with the files of the package that differ in size, name or mode, if there are some. */
  const named = async (thrown: unknown): Promise<never> => {
    const listOf = async (folder: string) =>
      (await run("tar", "--list", "--verbose", "--gzip", "--file", `${folder}/keyrun-9.8.7.tgz`)).stdout;
    if (existsSync(join(clone, "release/again")))
      expect(await listOf("release/again")).toBe(await listOf("release"));
    throw thrown;
  };
  const made: Buffer[][] = [];
  for (const times of ["first", "second"]) {
    const { stdout } = await run(process.execPath, "tools/release.ts", "9.8.7", "--no-image").catch(named);
    if (times === "second") expect(stdout).toContain("v9.8.7 is there already, so it is built once more.");
    made.push(readdirSync(join(clone, "release")).map((name) => readFileSync(join(clone, "release", name))));
  }
  const names = ["SHA256SUMS", "keyrun-9.8.7.cdx.json", "keyrun-9.8.7.tgz"];
  expect(readdirSync(join(clone, "release"))).toEqual(names);
  expect(made[1]).toEqual(made[0]);
  await promisify(execFile)("sha256sum", ["--check", "SHA256SUMS"], { cwd: join(clone, "release") });
  const { version } = JSON.parse(readFileSync(join(clone, "package.json"), "utf8"));
  expect(version).toBe("9.8.7");
  expect(readFileSync(join(clone, "compose.yaml"), "utf8")).toContain("keyrun:9.8.7");
  expect((await run("git", "status", "--porcelain")).stdout).toBe("");
  expect((await run("git", "log", "-1", "--format=%s %D")).stdout).toMatch(
    /^Release 9\.8\.7 .*tag: v9\.8\.7/,
  );
  figure("the package", `${Math.round((made[0]?.[2]?.length ?? 0) / 1e5) / 10}`, "MB");
  figure("files that differ", 0);
  // What was published is not overwritten by something else.
  await appendFile(join(clone, "release/keyrun-9.8.7.cdx.json"), "\n");
  await expect(run(process.execPath, "tools/release.ts", "9.8.7", "--no-image")).rejects.toMatchObject({
    stderr: expect.stringContaining("not the same bytes as in release/: keyrun-9.8.7.cdx.json"),
  });
});
