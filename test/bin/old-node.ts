import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";

/** A Node on the PATH, outside node_modules, that is too old for Keyrun; undefined if none is. */
export function findOldNode(): string | undefined {
  return (process.env.PATH ?? "")
    .split(delimiter)
    .filter((folder) => folder !== "" && !folder.includes("node_modules"))
    .map((folder) => join(folder, "node"))
    .find((node) => existsSync(node) && isOld(node));
}

function isOld(node: string): boolean {
  const [major = 0, minor = 0] = execFileSync(node, ["-p", "process.versions.node"])
    .toString()
    .split(".")
    .map(Number);
  return major < 24 || (major === 24 && minor < 15);
}
