import type { Connection } from "./connection.ts";
import { printableJson } from "./printable.ts";
import type { Style } from "./style.ts";

/** What a command works with, besides its arguments. */
export interface Terminal {
  /** The server; the first call opens the connection, which is closed when the command ends. */
  server(): Promise<Connection>;
  /** A line of the answer, on standard output. */
  print(line: string): void;
  /** A line for people, on standard error: a pipe gets the answer alone. */
  note(line: string): void;
  /** Colours of the answer, if standard output is a terminal that has them. */
  readonly style: Style;
  /** The width of standard output; absent if it is no terminal. */
  readonly columns?: number;
  /** The first line of standard input, trimmed; empty if there is none. */
  readLine(): Promise<string>;
  /** Sets the exit status of a command that did its work and got a negative answer. */
  endWith(exitCode: number): void;
}

export interface JsonOption {
  json?: boolean;
}

/** Prints the response as JSON with `--json`; calls `printText` without. */
export async function answer(
  terminal: Terminal,
  { json }: JsonOption,
  response: object,
  printText: () => void | Promise<void>,
): Promise<void> {
  if (json) terminal.print(printableJson(response));
  else await printText();
}
