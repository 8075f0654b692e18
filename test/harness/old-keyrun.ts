import { execFileSync } from "node:child_process";
import { readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { repository } from "./keyrun-process.ts";

/**
 * The files that name commits: the newest release, and the last ones before fleets, whose instances
 * alone had no lease, and without runs in the background.
 */
type NamedCommit = "proto/BASELINE" | `test/process/BEFORE-${"FLEETS" | "FLEET-OF-ONE" | "LONG-RUNS"}`;

/**
 * Puts the Keyrun of a commit into the folder, from the history of this clone, and returns the
 * command that serves with it. Throws where the history does not reach back so far, as in a shallow
 * clone.
 */
export function unpackOldKeyrun(folder: string, named: NamedCommit): readonly string[] {
  const commit = readFileSync(join(repository, named), "utf8").trim();
  const inCommit = execFileSync("git", ["ls-tree", "--name-only", commit], {
    cwd: repository,
    encoding: "utf8",
  });
  // Older commits have no packages.
  const parts = inCommit.split("\n").filter((name) => /^(src|gen|packages|package\.json)$/.test(name));
  const archive = execFileSync("git", ["archive", commit, ...parts], {
    cwd: repository,
    maxBuffer: 64 * 1024 * 1024,
  });
  execFileSync("tar", ["-x", "-C", folder], { input: archive });
  symlinkSync(join(repository, "node_modules"), join(folder, "node_modules"));
  return [process.execPath, join(folder, "src/main.ts"), "serve"];
}
