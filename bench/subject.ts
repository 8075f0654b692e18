import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

/** A server under measurement, in a process of its own: only its processor time counts, not the load's. */
export interface Subject {
  readonly name: string;
  readonly port: number;
  /** The API key it takes; empty where it takes none. */
  readonly apiKey: string;
  /** Microseconds of processor time, user and system, that the process has used. */
  cpuUs(): Promise<number>;
  stop(): Promise<void>;
}

/** What a subject's process tells its parent once it listens. */
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
    // Takes off the listener of the event that did not come.
    exited.catch(() => {});
    over.abort();
  }
}

/** For a subject's own process: says that it listens, and answers the parent's question for its processor time. */
export function announce(ready: ReadyMessage): void {
  process.on("message", () => process.send?.(process.cpuUsage()));
  process.on("disconnect", () => process.exit());
  process.send?.(ready);
}
