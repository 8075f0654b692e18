/** What surrounds a command: its process, its terminal, and what may be printed there. */

import { styleText } from "node:util";
import { misleadingCharacters } from "../log/redaction.ts";
import type { Connection, SettingsWorld } from "./connection.ts";

/** What the command line takes from its process. */
export interface CliWorld extends SettingsWorld {
  /** `process.versions.node`. */
  readonly nodeVersion: string;
  readonly stdin: AsyncIterable<Uint8Array | string> & { readonly isTTY?: boolean };
  readonly stdout: OutputStream & { write(text: string): unknown };
  readonly stderr: OutputStream & { write(text: string): unknown };
  /** How long `doctor` watches MongoDB; 5 s where it is absent. */
  readonly storeMsMax?: number;
  /** Runs the server until a signal stops it. The result is the exit status. */
  serve(): Promise<number>;
}

/** What of a stream says whether it is a terminal. */
export interface OutputStream {
  readonly isTTY?: boolean;
  /** The width of the terminal. */
  readonly columns?: number;
  /** False once the reader of a pipe has left. */
  readonly writable?: boolean;
}

/** What a command works with, besides its arguments. */
export interface Terminal {
  /** The server; the first call opens the connection, which is closed when the command ends. */
  server(): Promise<Connection>;
  /** A line of the answer, on standard output. */
  print(line: string): void;
  /**
   * A text of an app on standard output, piece by piece. A pipe or a file gets it exactly; in a
   * terminal, what misleads its reader is replaced, and the text ends with a line break. Stops
   * where the reader has left.
   */
  writeText(pieces: Iterable<string | undefined> | AsyncIterable<string | undefined>): Promise<void>;
  /** A line for people, on standard error: a pipe gets the answer alone. */
  note(line: string): void;
  /** Colours of the answer, if standard output is a terminal that has them. */
  readonly style: Style;
  /** The width of standard output; absent if it is no terminal. */
  readonly columns?: number;
  /** What the arguments of the command say about its table. */
  readonly tableOptions: TableOptions;
  /** The first line of standard input, trimmed; empty if there is none. */
  readLine(): Promise<string>;
  /**
   * Asks on the terminal before what can't be undone, unless `--yes` was given. Throws where the
   * answer is another than yes, and where there is no terminal.
   */
  confirm(question: string, options: ConfirmOption): Promise<void>;
  /** All of standard input, exactly. Throws past `bytesMax`, and where it is not UTF-8. */
  readText(bytesMax: number): Promise<string>;
  /** Sets the exit status of a command that did its work and got a negative answer. */
  endWith(exitCode: number): void;
}

/** What the caller of a command says about its table. */
export interface TableOptions {
  /** Everything, however narrow the terminal is. */
  readonly wide?: boolean;
  /** Heads of columns, as `id,last-used`. */
  readonly columns?: string;
}

/** Marks for a terminal with colours; without them, the functions return the text as it is. */
interface Style {
  strong(text: string): string;
  faint(text: string): string;
  good(text: string): string;
  bad(text: string): string;
}

export interface JsonOption {
  json?: boolean;
}

export interface ConfirmOption {
  /** Don't ask. */
  readonly yes?: boolean;
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

export function createStyle(coloured: boolean): Style {
  const mark = (format: Parameters<typeof styleText>[0]) => (text: string) =>
    coloured ? styleText(format, text, { validateStream: false }) : text;
  return { strong: mark("bold"), faint: mark("dim"), good: mark("green"), bad: mark("red") };
}

/**
 * Whether to write colours: where the stream is a terminal that has them. NO_COLOR with any value
 * turns them off (no-color.org), and FORCE_COLOR turns them on for pipes, too.
 */
export function wantsColour(
  env: Readonly<Record<string, string | undefined>>,
  stream: OutputStream,
): boolean {
  if (env.NO_COLOR) return false;
  if (env.FORCE_COLOR !== undefined) return !/^(0|false)$/.test(env.FORCE_COLOR);
  return stream.isTTY === true && env.TERM !== "dumb";
}

const misleading = new RegExp(`[\\u0000-\\u001f${misleadingCharacters}]`, "g");

/** The text on one line, with "�" for what could mislead the reader of a terminal. */
export function printable(text: string): string {
  return text.replace(misleading, "\ufffd");
}

// `styleText` writes these: the escape character and a number.
const marks = `${String.fromCharCode(27)}\\[\\d{1,2}m`;
const keptInColours = new RegExp(`(\n|${marks})`);
const keptInPlain = /(\n)/;

/** The same for a finished text, whose line breaks stay, and whose colours stay if it has any. */
export function printableText(text: string, { coloured }: { readonly coloured: boolean }): string {
  // Every second part is what the form has found.
  return text
    .split(coloured ? keptInColours : keptInPlain)
    .map((part, index) => (index % 2 === 1 ? part : printable(part)))
    .join("");
}

/** The same for a text of an app, whose tabs stay, too. */
export function printableOutput(text: string): string {
  return text
    .split("\t")
    .map((part) => printableText(part, { coloured: false }))
    .join("\t");
}

/** How many there are: `1 key`, `2 keys`. */
export function counted(count: number, thing: string): string {
  return `${count} ${thing}${count === 1 ? "" : "s"}`;
}

/**
 * JSON in which such characters are escaped. JSON itself escapes only a part of them. Without an
 * indentation it is one line, also to readers that cut at the line ends of Unicode.
 */
export function printableJson(value: unknown, indentation = 2): string {
  const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(value, null, indentation).replace(misleading, (character) =>
    character === "\n" ? character : escaped(character),
  );
}
