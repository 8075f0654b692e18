import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

/** A server under test, in a process of its own: the load's processor time does not count. */
export interface Subject {
  readonly name: string;
  readonly port: number;
  /** The API key that it accepts; empty if it needs none. */
  readonly apiKey: string;
  /** Microseconds of processor time, user and system, that the process has used so far. */
  cpuUs(): Promise<number>;
  stop(): Promise<void>;
}

/** The message of a subject's process to its parent once it listens. */
export interface ReadyMessage {
  readonly port: number;
  readonly apiKey?: string;
}

/** Starts `bench/subjects/<name>.ts`. */
export async function startSubject(name: string): Promise<Subject> {
  const path = fileURLToPath(new URL(`./subjects/${name}.ts`, import.meta.url));
  const child = fork(path, { stdio: ["ignore", "ignore", "inherit", "ipc"], execArgv: [] });
  const ready: ReadyMessage = await nextMessage(child);
  return {
    name,
    port: ready.port,
    apiKey: ready.apiKey ?? "",
    async cpuUs() {
      child.send("cpu");
      const usage: NodeJS.CpuUsage = await nextMessage(child);
      return usage.user + usage.system;
    },
    async stop() {
      if (!child.connected) return;
      const exited = once(child, "exit");
      child.disconnect();
      await exited;
    },
  };
}

async function nextMessage<T>(child: ChildProcess): Promise<T> {
  const over = new AbortController();
  const { signal } = over;
  const exited = once(child, "exit", { signal }).then(([code]) => {
    throw new Error(`a subject exited with ${code}`);
  });
  try {
    const [message] = await Promise.race([once(child, "message", { signal }), exited]);
    return message;
  } finally {
    // Removes the listener for the other event.
    exited.catch(() => {});
    over.abort();
  }
}

/** Tells the parent that this subject listens, and answers its requests for the processor time. */
export function announce(ready: ReadyMessage): void {
  process.on("message", () => process.send?.(process.cpuUsage()));
  process.on("disconnect", () => process.exit());
  process.send?.(ready);
}
