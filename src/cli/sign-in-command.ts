import type { Command } from "commander";
import { rpcCommand } from "./command-words.ts";
import { timeWords } from "./table.ts";
import { answer, type JsonOption, type Terminal } from "./terminal.ts";

/** `sign-in-link`: prints the link alone on standard output, so that it can be piped. */
export function addSignInCommand(program: Command, terminal: Terminal): void {
  rpcCommand(program, "sign-in-link", {
    does: "Make a link that signs you in to the screen, once.",
    examples: ["sign-in-link"],
  }).action(async (options: JsonOption) => {
    const message = await (await terminal.server()).sessions.createSignInLink({});
    await answer(terminal, options, message, () => {
      terminal.print(message.url ?? "");
      terminal.note(linkWords(message.expireTime));
    });
  });
}

function linkWords(expireTime: string | undefined): string {
  const until = expireTime === undefined ? "" : ` until ${timeWords(expireTime)}`;
  return `Open it in a browser on this machine. It works once${until}, and signs in the person who opens it.`;
}
