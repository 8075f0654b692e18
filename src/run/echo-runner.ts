import type { Run } from "./runner.ts";

/** The built-in backend: the output is the input. It takes no time, so nothing about it needs to be cancelled. */
export function runEcho(run: Run): string {
  return run.text;
}
