import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";

/** A real terminal: what is typed goes to a program, and what it shows can be read. */
export interface TmuxTerminal {
  /** Types text, and keys by their names in tmux, such as `Tab` and `C-u`. */
  type(...keys: string[]): void;
  /** What the screen shows now, without empty lines at its end. */
  screen(): string;
  /** The same with the escape sequences of colours. */
  colouredScreen(): string;
  close(): void;
}

interface Facts {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly columns?: number;
}

export function hasProgram(name: string): boolean {
  try {
    execFileSync("sh", ["-c", `command -v ${name}`], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** Starts a program in a terminal of its own. Its environment has only what `env` has. */
export function openTmux(command: readonly string[], { cwd, env, columns = 100 }: Facts): TmuxTerminal {
  // A server of its own, which no other tmux on this machine knows.
  const server = ["-L", `keyrun-${randomUUID()}`, "-f", "/dev/null"];
  const tmux = (...args: string[]) =>
    execFileSync("tmux", [...server, ...args], { cwd, env, encoding: "utf8" });
  tmux("new-session", "-d", "-x", String(columns), "-y", "50", ...command);
  return {
    type: (...keys) => void tmux("send-keys", ...keys),
    screen: () => tmux("capture-pane", "-p").trimEnd(),
    colouredScreen: () => tmux("capture-pane", "-p", "-e").trimEnd(),
    close: () => void tmux("kill-server"),
  };
}
