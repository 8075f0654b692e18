import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { freePort } from "./free-port.ts";
import { asHere, asPage, isSaid, type Places } from "./page-text.ts";

/** A fenced `sh` block with commands, and the `text` block right after it with their output. */
export interface Step {
  readonly commands: string;
  readonly prints: string | undefined;
}

/** The steps of a page, in order. Ignores blocks of other languages. */
export function readSteps(markdown: string): Step[] {
  const blocks = [...markdown.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map(([, language, text = ""]) => ({
    language,
    text,
  }));
  return blocks.flatMap(({ language, text }, index) => {
    const next = blocks[index + 1];
    if (language !== "sh") return [];
    return [{ commands: text, prints: next?.language === "text" ? next.text : undefined }];
  });
}

/** Commands that a story skips: the packages are installed, and tests would run inside tests. */
const settled = ["npm ci", "npm test"];
/** A line that starts a server. It runs in a terminal of its own while the next steps run. */
const serverLine = /(npm start|node examples\/[\w-]+\.ts)$/;

/**
 * Runs the steps of a page in order, as its reader would, in a copy of the repository and on free
 * ports. Rejects if a step fails or does not print what the page says. Ids, keys and times may
 * differ, and a line `…` matches any lines.
 */
export async function runStory(
  steps: readonly Step[],
  { folder, mongodbUri = "" }: { folder: string; mongodbUri?: string },
): Promise<void> {
  makeClone(folder);
  const appPort = String(await freePort());
  // The addresses on the page, and those to use instead.
  const places: Places = new Map([
    ["127.0.0.1:9000", `127.0.0.1:${appPort}`],
    ["mongodb://127.0.0.1:27017/keyrun", mongodbUri],
  ]);
  const shell = openShell(folder, { KEYRUN_PORT: "0", KEYRUN_GRPC_PORT: "0", PORT: appPort });
  const servers = new Map<string, ChildProcess>();
  try {
    for (const { commands, prints } of steps) {
      const lines = commands.split("\n").filter((line) => line !== "" && !settled.includes(line));
      const server = serverLine.test(lines.at(-1) ?? "") ? (lines.pop() ?? "") : undefined;
      const printed = await shell.run(asHere(lines.join("\n"), places));
      if (server === undefined) {
        if (prints !== undefined && !isSaid(printed, prints, places)) {
          throw new Error(
            `This page says\n${prints}\nbut what is printed is\n${asPage(printed, places)}\n${shell.complaints()}`,
          );
        }
        continue;
      }
      await stop(servers.get(server));
      const child = spawnGroup(server, folder, await shell.environment());
      servers.set(server, child);
      await untilSaid(child, prints ?? "", places);
    }
  } finally {
    shell.close();
    await Promise.all([...servers.values()].map(stop));
  }
}

function makeClone(folder: string): void {
  const root = fileURLToPath(new URL("../../", import.meta.url));
  const parts = [
    "package.json",
    ".npmrc",
    ".env.example",
    "buf.yaml",
    "bin",
    "src",
    "gen",
    "proto",
    "examples",
  ];
  for (const part of parts) cpSync(join(root, part), join(folder, part), { recursive: true });
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
}

/**
 * A shell that keeps its variables from step to step, and ends at the first command that fails. It
 * is the system's `sh`, as the blocks say, so that a page can't depend on bash or zsh.
 */
function openShell(folder: string, settings: NodeJS.ProcessEnv) {
  const child = spawn("sh", [], { cwd: folder, detached: true, env: cleanEnvironment(settings) });
  const heard = { out: "", err: "" };
  child.stdout.on("data", (chunk) => {
    heard.out += chunk;
  });
  child.stderr.on("data", (chunk) => {
    heard.err += chunk;
  });
  const ended = once(child, "close");
  child.stdin.write("set -e\nif (set -o pipefail) 2>/dev/null; then set -o pipefail; fi\n");
  const mark = "--- end of the step ---\n";

  async function run(commands: string): Promise<string> {
    heard.out = "";
    heard.err = "";
    child.stdin.write(`${commands}\nprintf '%s\\n' '${mark.trim()}'\n`);
    while (!heard.out.endsWith(mark)) {
      await Promise.race([once(child.stdout, "data"), ended]);
      if (child.exitCode !== null) throw new Error(`This failed:\n${commands}\n${heard.out}${heard.err}`);
    }
    return heard.out.slice(0, -mark.length);
  }

  return {
    run,
    /** What the last commands wrote to standard error. */
    complaints: () => heard.err,
    async environment(): Promise<NodeJS.ProcessEnv> {
      const entries = (await run("env -0")).split("\0").map((entry) => entry.split(/=(.*)/s, 2));
      return Object.fromEntries(entries);
    },
    close: () => child.kill("SIGKILL"),
  };
}

/** The environment without the variables of this test run. */
function cleanEnvironment(settings: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const own = /^(KEYRUN_|VITEST|NODE_OPTIONS$|NODE_ENV$|npm_)/;
  const outside = Object.entries(process.env).filter(([name]) => !own.test(name));
  return { ...Object.fromEntries(outside), ...settings };
}

/** Starts the line in a process group of its own, so that all of it can be stopped at once. */
function spawnGroup(line: string, cwd: string, env: NodeJS.ProcessEnv): ChildProcess {
  return spawn("sh", ["-c", line], { cwd, env, detached: true, stdio: ["ignore", "pipe", "pipe"] });
}

async function stop(child: ChildProcess | undefined): Promise<void> {
  if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  process.kill(-child.pid, "SIGINT");
  await ended;
}

/** Waits until the server has printed what the page says, and adds its addresses to `places`. */
function untilSaid(child: ChildProcess, prints: string, places: Places): Promise<void> {
  const heard = { out: "", err: "" };
  return new Promise((resolve, reject) => {
    const fail = (why: string) => reject(new Error(`${why}:\n${heard.out}${heard.err}`));
    const timer = setTimeout(() => fail(`The server has not printed this\n${prints}\nbut`), readyMsMax);
    child.stderr?.on("data", (chunk) => {
      heard.err += chunk;
    });
    child.once("close", () => fail("The server ended"));
    child.stdout?.on("data", (chunk) => {
      heard.out += chunk;
      noteAddresses(heard.out, places);
      if (!readyLine.test(heard.out) || !isSaid(heard.out, `${prints.replace(/…\n$/, "")}…\n`, places))
        return;
      clearTimeout(timer);
      resolve();
    });
  });
}

const readyLine = /(is ready: |listens on ).*\n/;
const readyMsMax = 30_000;

function noteAddresses(text: string, places: Places): void {
  const [, http, grpc] = /is ready: http:\/\/(\S+) \(gRPC (\S+)\)/.exec(text) ?? [];
  if (http) places.set("127.0.0.1:8080", http);
  if (grpc) places.set("127.0.0.1:8081", grpc);
}
