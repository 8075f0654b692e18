import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Programs that Go builds from a module of the harness, each once for all clones of a user. */
export interface GoModule {
  /** The module's folder beside this file. */
  readonly folder: string;
  readonly sources: readonly string[];
  /** The packages by the name of their program. */
  readonly programs: Readonly<Record<string, string>>;
}

/**
 * Returns the folder of the programs, which are built from exactly these sources; undefined if a
 * build fails. `say` is called before something is built.
 */
export function buildGoPrograms(module: GoModule, say: () => void = () => {}): string | undefined {
  const source = fileURLToPath(new URL(`${module.folder}/`, import.meta.url));
  const sources = createHash("sha256");
  for (const name of module.sources) sources.update(readFileSync(join(source, name)));
  // Not in `node_modules`, which `npm ci` removes: a build takes minutes.
  const cache = process.env.XDG_CACHE_HOME || join(homedir(), ".cache");
  const folder = join(cache, "keyrun-go", `${module.folder}-${sources.digest("hex").slice(0, 16)}`);
  const missing = Object.entries(module.programs).filter(([name]) => !existsSync(join(folder, name)));
  if (missing.length > 0) say();
  mkdirSync(folder, { recursive: true });
  for (const [name, path] of missing) {
    // Two test runs may build at the same time: each moves its finished program into place.
    const unfinished = join(folder, `${name}.${process.pid}`);
    const build = spawnSync("go", ["build", "-trimpath", "-o", unfinished, path], {
      cwd: source,
      stdio: ["ignore", "ignore", "inherit"],
    });
    if (build.status !== 0) return undefined;
    renameSync(unfinished, join(folder, name));
  }
  return folder;
}
