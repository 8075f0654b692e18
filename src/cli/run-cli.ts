import { readFileSync } from "node:fs";
import { createCli } from "./cli.ts";

/**
 * Runs one command of this process and answers with the status to exit with: set `process.exitCode` to it, and let
 * the process end by itself.
 */
export function runCli(
  argv: readonly string[],
  { serve }: { serve: () => Promise<number> },
): Promise<number> {
  // `keyrun keys list | head` closes its end early, which is no failure.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
  });
  return createCli({
    env: process.env,
    nodeVersion: process.versions.node,
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    readFile: (path) => readFileSync(path, "utf8"),
    serve,
  }).run(argv);
}
