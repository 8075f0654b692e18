import { readFileSync } from "node:fs";
import { createCli } from "./cli.ts";

/** Runs the command of this process. The result is for `process.exitCode`: see `createCli`. */
export function runCli(
  argv: readonly string[],
  { serve }: { serve: () => Promise<number> },
): Promise<number> {
  // In `keyrun keys list | head` the reader closes the pipe early, which is no failure.
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
