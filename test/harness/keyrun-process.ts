import { execFile, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { eventually, whileAnswer } from "./eventually.ts";

export const repository = fileURLToPath(new URL("../../", import.meta.url));

export type Settings = Readonly<Record<string, string>>;

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/**
 * The real process, started as by `npm start`. Its environment contains only what that sets, and
 * its settings.
 */
export interface KeyrunProcess {
  readonly pid: number;
  /** Everything written so far. */
  stdout(): string;
  stderr(): string;
  /** Resolves once its output satisfies the condition. Rejects if the process ends before. */
  until(condition: () => boolean): Promise<void>;
  kill(signal: NodeJS.Signals): void;
  /** Writes to its standard input. */
  type(text: string): void;
  readonly exited: Promise<Exit>;
}

export function spawnKeyrun(
  settings: Settings,
  [command = "", ...args]: readonly string[] = [
    process.execPath,
    "--max-semi-space-size=8",
    "--initial-old-space-size=100",
    "src/main.ts",
    "serve",
  ],
): KeyrunProcess {
  const child = spawn(command, args, { cwd: repository, env: environment(settings), stdio: "pipe" });
  const written = { stdout: "", stderr: "" };
  let over = false;
  const checks = new Set<() => void>();
  const check = () => {
    for (const each of [...checks]) each();
  };
  for (const name of ["stdout", "stderr"] as const) {
    child[name].setEncoding("utf8").on("data", (text: string) => {
      written[name] += text;
      check();
    });
  }
  const exited = new Promise<Exit>((resolve) => {
    // `close` comes after all output was read.
    child.once("close", (code, signal) => {
      over = true;
      resolve({ code, signal });
      check();
    });
  });
  return {
    pid: child.pid ?? 0,
    stdout: () => written.stdout,
    stderr: () => written.stderr,
    until: (condition) =>
      new Promise((resolve, reject) => {
        const once = () => {
          if (!condition() && !over) return;
          checks.delete(once);
          if (condition()) resolve();
          else reject(new Error(`Keyrun ended before: ${written.stderr.slice(-2_000)}`));
        };
        checks.add(once);
        once();
      }),
    kill: (signal) => void child.kill(signal),
    type: (text) => void child.stdin.write(text),
    exited,
  };
}

export interface ServingKeyrun extends KeyrunProcess {
  readonly publicUrl: string;
  readonly internalUrl: string;
  readonly dataDir: string;
  serviceToken(): string;
}

/** A process that serves, on free ports unless the settings name others. */
export async function serveKeyrun(
  dataDir: string,
  settings: Settings = {},
  command?: readonly string[],
): Promise<ServingKeyrun> {
  const ports = { KEYRUN_PORT: "0", KEYRUN_GRPC_PORT: "0" };
  const running = spawnKeyrun({ ...ports, KEYRUN_DATA_DIR: dataDir, ...settings }, command);
  await running.until(() => running.stdout().includes("curl "));
  const [, publicUrl = "", internal = ""] = /ready: (\S+) \(gRPC (\S+)\)/.exec(running.stdout()) ?? [];
  while ((await statusOf(`${publicUrl}/readyz`)) !== 200) {
    const ended = running.exited.then(() => {
      throw new Error(`Keyrun ended before it was ready: ${running.stderr().slice(-2_000)}`);
    });
    await Promise.race([pause(10), ended]);
  }
  return {
    ...running,
    publicUrl,
    internalUrl: `http://${internal}`,
    dataDir,
    serviceToken: () => readFileSync(join(dataDir, "service-token"), "utf8").trim(),
  };
}

/** The status of a GET; 0 if there is no answer. */
export async function statusOf(url: string): Promise<number> {
  return fetch(url).then(
    async (answer) => {
      await answer.text();
      return answer.status;
    },
    () => 0,
  );
}

/** Runs one `keyrun` command in a process, through the package's bin. */
export function keyrunCommand(settings: Settings, args: readonly string[], stdin = "") {
  return new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
    const bin = join(repository, "bin/keyrun.mjs");
    const options = { cwd: repository, env: environment(settings) };
    const child = execFile(process.execPath, [bin, ...args], options, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
    child.stdin?.end(stdin);
  });
}

/** The same, and asks again while the server, or MongoDB behind it, can't answer in time. */
export function servedCommand(settings: Settings, args: readonly string[]) {
  return eventually(
    () => keyrunCommand(settings, args),
    whileAnswer(({ stderr }) => stderr.includes("can't answer this now")),
  );
}

function environment(settings: Settings): Record<string, string> {
  const { PATH = "", HOME = "" } = process.env;
  return { PATH, HOME, ...settings };
}

interface RestRun {
  readonly value: string;
  readonly appId?: string;
  readonly text?: string;
}

/**
 * Runs an app over REST, and returns any answer but one: that Keyrun has not begun with it, as the
 * event loop was late. It then asks again, as the answer says. A busy machine makes it late.
 */
export async function restRun(publicUrl: string, run: RestRun) {
  return eventually(() => restRunOnce(publicUrl, run), whileAnswer(isOverloaded));
}

/** Keyrun has not begun with it, as the event loop was late. */
export function isOverloaded({ body }: { readonly body: string }): boolean {
  return body.includes('"code":"overloaded"');
}

/**
 * The same, and asks again at each 503. On a busy machine an instance of a fleet may be without its
 * lease for a moment, or have no answer of Redis in time. It admits nothing then.
 */
export async function servedRun(publicUrl: string, run: RestRun) {
  return eventually(
    () => restRunOnce(publicUrl, run),
    whileAnswer(({ status }) => status === 503),
  );
}

/** The same, and returns any answer. */
export async function restRunOnce(publicUrl: string, { value, appId = "echo", text = "x" }: RestRun) {
  const answer = await fetch(`${publicUrl}/api/apps/${appId}/run`, {
    method: "POST",
    headers: { authorization: `Bearer ${value}`, "content-type": "application/json" },
    body: JSON.stringify({ text }),
  });
  return { status: answer.status, headers: answer.headers, body: await answer.text() };
}
