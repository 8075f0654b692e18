import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished } from "vitest";
import type { AttackedKeyrun } from "./attacked-keyrun.ts";
import { type Load, noLoad } from "./attackers/report.ts";

/** An attack that runs in a process of its own, as fast as a stranger's machine. */
export interface Attack {
  load(): Load;
  /** Resolves once the load meets the condition. */
  until(condition: (load: Load) => boolean): Promise<void>;
  stop(): Promise<void>;
}

/** Starts one of the programs in `attackers/`, with its arguments. */
export function startAttack(
  name: "run-memory" | "tiny-chunks" | "unread-streams" | "unread-runs" | "unread-pipeline",
  args: readonly (string | number)[],
): Attack {
  const script = fileURLToPath(new URL(`attackers/${name}.ts`, import.meta.url));
  const stdio = ["ignore", "pipe", "inherit"] as const;
  const child = spawn(process.execPath, [script, ...args.map(String)], { stdio: [...stdio] });
  let load = noLoad();
  createInterface({ input: child.stdout }).on("line", (line) => {
    load = JSON.parse(line);
  });
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  onTestFinished(() => void child.kill("SIGKILL"));
  return {
    load: () => load,
    until: (condition) => expect.poll(() => condition(load), { timeout: 150_000, interval: 50 }).toBe(true),
    stop() {
      child.kill("SIGKILL");
      return ended;
    },
  };
}

/**
 * Lets another caller send one run after the other while the attack goes on. `stop` rejects if one
 * of them was not answered rightly.
 */
export function startOtherCaller(keyrun: AttackedKeyrun): { stop(): Promise<void> } {
  let isOver = false;
  const runAll = async () => {
    do await keyrun.expectServing();
    while (!isOver);
  };
  const running = runAll();
  running.catch(() => undefined);
  return {
    stop() {
      isOver = true;
      return running;
    },
  };
}
