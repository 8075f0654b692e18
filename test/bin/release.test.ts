import { execFile } from "node:child_process";
import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { datedSbom, releasedChangelog } from "../../tools/release.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { repository } from "../harness/keyrun-process.ts";

const folders = tempFolders();

describe("the changelog of a version", () => {
  const page = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- One.\n\n## [0.1.0] - 2026-01-02\n\n- Old.\n";

  test("has what was unreleased, and leaves room for what comes", () => {
    expect(releasedChangelog(page, "0.2.0", "2026-11-27")).toBe(
      "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-11-27\n\n### Added\n\n- One.\n\n## [0.1.0] - 2026-01-02\n\n- Old.\n",
    );
  });

  test("no longer says that there is none", () => {
    const words = " There is no tagged release yet. The version in `package.json` is 0.1.0.\n";
    const first = page.replace("# Changelog\n", `# Changelog\nIts form.${words}`);
    expect(releasedChangelog(first, "0.2.0", "2026-11-27")).toContain("# Changelog\nIts form.\n\n## [Unr");
  });

  test.each([
    ["nothing is unreleased", page.replace("- One.\n", ""), "nothing stands under *Unreleased*"],
    ["there is no such part", "# Changelog\n", "has no part `## [Unreleased]`"],
  ])("is refused where %s", (_, text, words) => {
    expect(() => releasedChangelog(text, "0.2.0", "2026-11-27")).toThrow(words);
  });
});

test("a bill of materials has a number and a time of its commit", () => {
  const made = (serialNumber: string, commit: string) =>
    JSON.parse(datedSbom(JSON.stringify({ serialNumber, metadata: { timestamp: "now" } }), commit, 1_000));
  const first = made("urn:uuid:1", "abc");
  expect(first).toEqual({
    serialNumber: expect.stringMatching(
      /^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/,
    ),
    metadata: { timestamp: "1970-01-01T00:16:40.000Z" },
  });
  expect(made("urn:uuid:2", "abc")).toEqual(first);
  expect(made("urn:uuid:1", "abd").serialNumber).not.toBe(first.serialNumber);
});

describe("nothing is changed where a release is refused:", () => {
  const git = (cwd: string, ...args: string[]) => promisify(execFile)("git", args, { cwd });

  /** A repository with the tool, and little more. */
  async function smallRepository(unreleased: string): Promise<string> {
    const folder = folders.create();
    mkdirSync(join(folder, "tools"));
    cpSync(join(repository, "tools/release.ts"), join(folder, "tools/release.ts"));
    writeFileSync(join(folder, "package.json"), '{"name":"keyrun","version":"0.1.0","type":"module"}\n');
    writeFileSync(join(folder, "CHANGELOG.md"), `# Changelog\n\n## [Unreleased]\n${unreleased}`);
    await git(folder, "init", "--quiet");
    await git(folder, "add", "-A");
    const author = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
    await git(folder, ...author, "commit", "--quiet", "-m", "First");
    return folder;
  }

  const release = (cwd: string, ...args: string[]) =>
    promisify(execFile)(process.execPath, ["tools/release.ts", ...args, "--no-image"], { cwd });

  test.each([
    ["no version", [], "give one version"],
    ["a version that is none", ["soon"], "give one version"],
    ["two versions", ["0.2.0", "0.3.0"], "give one version"],
    ["nothing new", ["0.2.0"], "nothing stands under *Unreleased*"],
  ])("%s", async (_, args, words) => {
    const folder = await smallRepository("");
    await expect(release(folder, ...args)).rejects.toMatchObject({ stderr: expect.stringContaining(words) });
    expect((await git(folder, "status", "--porcelain")).stdout).toBe("");
    expect((await git(folder, "tag")).stdout).toBe("");
  });

  test("a change that is not committed", async () => {
    const folder = await smallRepository("\n- One.\n");
    writeFileSync(join(folder, "new.txt"), "");
    await expect(release(folder, "0.2.0")).rejects.toMatchObject({
      stderr: expect.stringContaining("there are changes that are not committed"),
    });
    expect((await git(folder, "tag")).stdout).toBe("");
  });
});
