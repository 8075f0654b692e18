import { spawnSync } from "node:child_process";
import { existsSync, globSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** The folder of the built screen. */
export const screenFolder = join(root, "web/dist");

/** Builds the screen, unless the last build is newer than all of its sources. */
export function buildScreen(): void {
  const built = join(screenFolder, "index.html");
  if (existsSync(built) && newestMs() <= statSync(built).mtimeMs) return;
  const { status, stdout, stderr } = spawnSync("npm", ["run", "build:web"], { cwd: root, encoding: "utf8" });
  if (status !== 0) throw new Error(`The screen could not be built.\n${stdout}${stderr}`);
}

function newestMs(): number {
  const sources = globSync(
    ["web/**/*.*", "gen/**/*.ts", "src/{base/clock,http/static-body}.ts", "package-lock.json"],
    {
      cwd: root,
    },
  );
  const own = sources.filter((path) => !path.startsWith("web/dist") && !path.includes("node_modules"));
  return Math.max(...own.map((path) => statSync(join(root, path)).mtimeMs));
}
