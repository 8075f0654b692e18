import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { repository } from "./keyrun-process.ts";

/** Debian's own Python, whatever comes first on the PATH: Debian's packages are for no other. */
export const python = "/usr/bin/python3";

/** With what Debian has no package of. `.ci/run` puts it there. */
export const pythonEnv = {
  ...process.env,
  PYTHONPATH: join(repository, "node_modules/.cache/keyrun-python"),
  PYTHONDONTWRITEBYTECODE: "1",
};

export function pythonHas(...modules: readonly string[]): boolean {
  try {
    execFileSync(python, ["-c", `import ${modules.join(", ")}`], { stdio: "ignore", env: pythonEnv });
    return true;
  } catch {
    return false;
  }
}
