import { afterAll, beforeAll } from "vitest";
import type { Caller } from "../harness/callers.ts";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { everyCaller } from "./every-caller.ts";

/**
 * A Keyrun for the tests of a file, with a clock that they step, and a caller of every transport.
 * It runs from the first test to the last.
 */
export function agedKeyrun() {
  const clock = createManualClock();
  const callers: Caller[] = [];
  let started: Keyrun | undefined;
  const keyrun = (): Keyrun => {
    if (!started) throw new Error("Keyrun runs only during the tests");
    return started;
  };
  beforeAll(async () => {
    started = await startKeyrun({ clock });
    for (const make of Object.values(everyCaller)) callers.push(make(started.publicUrl));
  });
  afterAll(async () => {
    for (const caller of callers) caller.close();
    await started?.close();
  });
  /** Runs the app `echo` with the key. */
  const run = (value: string, caller = callers[0]!) =>
    caller.run({ appId: "echo", text: "x", authorization: `Bearer ${value}` });
  return { clock, callers, keyrun, run };
}
