import { spawn } from "node:child_process";
import { once } from "node:events";
import { keyrunCommand, repository, type Settings } from "./keyrun-process.ts";

/** The real process, whose log is read by nobody until `readLog`. */
export async function serveWithUnreadLog(dataDir: string, settings: Settings) {
  const child = spawn(process.execPath, ["src/main.ts", "serve"], {
    cwd: repository,
    env: {
      ...{ PATH: process.env.PATH ?? "", HOME: process.env.HOME ?? "", KEYRUN_DATA_DIR: dataDir },
      ...{ KEYRUN_PORT: "0", KEYRUN_GRPC_PORT: "0", ...settings },
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const exited = once(child, "close");
  let started = "";
  for await (const text of child.stdout.setEncoding("utf8").iterator({ destroyOnReturn: false })) {
    started += text;
    if (started.includes("curl ")) break;
  }
  child.stdout.resume();
  const [, publicUrl = ""] = /ready: (\S+) /.exec(started) ?? [];
  let log = "";
  return {
    ...{ child, exited, publicUrl },
    command: (args: string[]) => keyrunCommand({ KEYRUN_DATA_DIR: dataDir }, args),
    readLog: () =>
      void child.stderr.setEncoding("utf8").on("data", (text: string) => {
        log += text;
      }),
    log: () => log,
    lines: () =>
      log
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line)),
  };
}
