import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

/** A program that serves. */
export interface ChildServer {
  readonly pid: number;
  /** The line that said it is ready. */
  readonly match: RegExpExecArray;
  stop(): Promise<void>;
}

/** Starts a program, and waits for the line of its output that matches. */
export async function spawnServer(
  [program, ...args]: readonly [string, ...string[]],
  ready: RegExp,
  env: NodeJS.ProcessEnv = process.env,
): Promise<ChildServer> {
  // A standard input that ends when this process does, even if it is killed.
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"], env });
  const exited = once(child, "exit");
  for await (const line of createInterface({ input: child.stdout })) {
    const match = ready.exec(line);
    if (!match) continue;
    // Read what is printed later, or the program may wait for space in the pipe.
    child.stdout.resume();
    return {
      pid: child.pid ?? 0,
      match,
      async stop() {
        child.kill();
        await exited;
      },
    };
  }
  throw new Error(`${program} ended before it was ready`);
}
