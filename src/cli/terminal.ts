import { type DescMessage, type MessageShape, toJsonString } from "@bufbuild/protobuf";
import type { Command } from "commander";
import type { Connection } from "./connection.ts";

/** What a command works with, beside its own arguments. */
export interface Terminal {
  /** The server; the first call opens the connection, which is closed when the command ends. */
  server(): Connection;
  /** A line of the answer, on standard output. */
  print(line: string): void;
  /** A line for people, on standard error, so that the answer alone can be piped. */
  note(line: string): void;
  /** The first line of standard input, trimmed; empty where there is none. */
  readLine(): Promise<string>;
  /** The status to exit with where the command did its work and the answer is no. */
  endWith(exitCode: number): void;
}

export interface JsonOption {
  json?: boolean;
}

/** A command that is one RPC: with `--json` it prints the response message. */
export function rpcCommand(parent: Command, usage: string, does: string): Command {
  return parent.command(usage).description(does).option("--json", "print the response as ProtoJSON");
}

/** Prints the response as ProtoJSON where `--json` was given, else leaves it to `tell`. */
export function answer<Desc extends DescMessage>(
  terminal: Terminal,
  { json }: JsonOption,
  response: { desc: Desc; message: MessageShape<Desc> },
  tell: () => void,
): void {
  if (json) {
    const { desc, message } = response;
    terminal.print(toJsonString(desc, message, { alwaysEmitImplicit: true, prettySpaces: 2 }));
  } else {
    tell();
  }
}
