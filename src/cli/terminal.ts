import { type DescMessage, type MessageShape, toJsonString } from "@bufbuild/protobuf";
import type { Command } from "commander";
import type { Connection } from "./connection.ts";

/** What a command works with, besides its arguments. */
export interface Terminal {
  /** The server; the first call opens the connection, which is closed when the command ends. */
  server(): Connection;
  /** A line of the answer, on standard output. */
  print(line: string): void;
  /** A line for people, on standard error: a pipe gets the answer alone. */
  note(line: string): void;
  /** The first line of standard input, trimmed; empty if there is none. */
  readLine(): Promise<string>;
  /** Sets the exit status of a command that did its work and got a negative answer. */
  endWith(exitCode: number): void;
}

export interface JsonOption {
  json?: boolean;
}

/** A command that calls one RPC. With `--json` it prints the response message. */
export function rpcCommand(parent: Command, usage: string, does: string): Command {
  return parent.command(usage).description(does).option("--json", "print the response as ProtoJSON");
}

/** Prints the response as ProtoJSON with `--json`; calls `printText` without. */
export function answer<Desc extends DescMessage>(
  terminal: Terminal,
  { json }: JsonOption,
  response: { desc: Desc; message: MessageShape<Desc> },
  printText: () => void,
): void {
  if (json) {
    const { desc, message } = response;
    terminal.print(toJsonString(desc, message, { alwaysEmitImplicit: true, prettySpaces: 2 }));
  } else {
    printText();
  }
}
