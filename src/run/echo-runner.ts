import { type Run, takeText } from "./runner.ts";

/** The built-in backend: the output is the input. It takes no time, so it can't be cancelled. */
export function runEcho(run: Run): string {
  return takeText(run);
}
