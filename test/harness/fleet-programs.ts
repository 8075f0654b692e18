import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** Debian's libfaketime, for a process of several threads; undefined if it is not installed. */
export const fakeTimeLibrary: string | undefined = ["/usr/lib", "/usr/local/lib"]
  .flatMap((lib) => [lib, ...(existsSync(lib) ? readdirSync(lib).map((name) => join(lib, name)) : [])])
  .map((folder) => join(folder, "faketime", "libfaketimeMT.so.1"))
  .find((path) => existsSync(path));

/** The programs that a fleet's tests need and this machine lacks. */
export function missingFleetPrograms(): string[] {
  const missing = ["redis-server", "haproxy"].filter(
    (program) => spawnSync(program, ["-v"], { stdio: "ignore" }).error !== undefined,
  );
  return fakeTimeLibrary === undefined ? [...missing, "libfaketime"] : missing;
}
