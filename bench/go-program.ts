import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, globSync, mkdirSync, readFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const sources = fileURLToPath(new URL("go/", import.meta.url));
const cache = fileURLToPath(new URL("../node_modules/.cache/keyrun-bench/", import.meta.url));

/** The path of the program `bench/go/<name>`, built once for its sources; undefined without Go. */
export function goProgram(name: "app" | "proxy"): string | undefined {
  const digest = createHash("sha256").update(name);
  for (const path of globSync("**/*.{go,mod}", { cwd: sources }).sort())
    digest.update(readFileSync(join(sources, path)));
  const program = join(cache, digest.digest("hex").slice(0, 16));
  if (existsSync(program)) return program;
  if (spawnSync("go", ["version"]).status !== 0) return undefined;
  mkdirSync(cache, { recursive: true });
  // Two runs may build at the same time: each moves its finished program into place.
  const unfinished = `${program}.${process.pid}`;
  const build = spawnSync("go", ["build", "-trimpath", "-o", unfinished, `./${name}`], {
    cwd: sources,
    stdio: ["ignore", "ignore", "inherit"],
  });
  if (build.status !== 0) throw new Error(`bench/go/${name} could not be built`);
  renameSync(unfinished, program);
  return program;
}
