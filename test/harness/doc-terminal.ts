import { spawn } from "node:child_process";
import { once } from "node:events";

/** A terminal with one shell. Its variables are its own: other terminals don't see them. */
export interface DocTerminal {
  /** Types the lines. They end at the first that fails, and the shell with them. */
  type(lines: string): Typed;
  /** Sends what Ctrl-C sends, to everything that runs here. */
  pressCtrlC(): void;
  /** Closes the window: ends the shell and all that it runs. */
  close(): Promise<void>;
}

/** What is running in a terminal, or has run. */
export interface Typed {
  /** Whether the shell is back, and what was printed until now. */
  state(): { readonly over: boolean; readonly failed: boolean; readonly out: string; readonly err: string };
  /** Resolves when the state has changed, or after `msMax`. */
  changed(msMax: number): Promise<void>;
}

export interface DocTerminalPlace {
  readonly folder: string;
  /** The command that the shell is started by, if any. */
  readonly enter: readonly string[];
  /** A folder of programs that the person has installed; empty if there is none. */
  readonly programs: string;
}

/**
 * Opens a terminal in the folder. The shell is the system's `sh`, as the blocks say, so that a page
 * can't depend on bash or zsh.
 */
export function openDocTerminal({ folder, enter, programs }: DocTerminalPlace): DocTerminal {
  const [program = "sh", ...args] = [...enter, "sh"];
  // A group of its own, for Ctrl-C.
  const child = spawn(program, args, { cwd: folder, detached: true, env: personsEnvironment(programs) });
  const heard = { out: "", err: "" };
  let closed = false;
  const waiting = new Set<() => void>();
  const change = () => {
    for (const wake of [...waiting]) wake();
  };
  for (const [name, stream] of [["out", child.stdout] as const, ["err", child.stderr] as const]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      heard[name] += text;
      change();
    });
  }
  const ended = once(child, "close").then(() => {
    closed = true;
    change();
  });
  child.stdin.on("error", () => {});
  // The shell of a person survives Ctrl-C, which ends the program that runs in it.
  child.stdin.write("trap : INT\nset -e\nif (set -o pipefail) 2>/dev/null; then set -o pipefail; fi\n");
  const signal = (name: NodeJS.Signals) => {
    if (!closed && child.pid !== undefined) process.kill(-child.pid, name);
  };

  return {
    type(lines) {
      heard.out = "";
      heard.err = "";
      child.stdin.write(`${lines}\nprintf '%s\\n' '${mark.trim()}'\n`);
      return {
        state: () => ({
          over: closed || heard.out.endsWith(mark),
          failed: closed,
          out: heard.out.replace(mark, ""),
          err: heard.err,
        }),
        changed: (msMax) =>
          new Promise((resolve) => {
            const wake = () => {
              clearTimeout(timer);
              waiting.delete(wake);
              resolve();
            };
            const timer = setTimeout(wake, msMax);
            waiting.add(wake);
          }),
      };
    },
    pressCtrlC: () => signal("SIGINT"),
    async close() {
      signal("SIGKILL");
      await ended;
    },
  };
}

const mark = "--- the shell is back ---\n";

/** The environment of this run, without what npm and the test runner have put there. */
function personsEnvironment(programs: string): NodeJS.ProcessEnv {
  const own = /^(KEYRUN_|VITEST|NODE_OPTIONS$|NODE_ENV$|npm_|INIT_CWD$)/i;
  const outside = Object.fromEntries(Object.entries(process.env).filter(([name]) => !own.test(name)));
  const folders = (outside.PATH ?? "").split(":").filter((path) => !path.endsWith("node_modules/.bin"));
  return { ...outside, PATH: [...(programs === "" ? [] : [programs]), ...folders].join(":") };
}
