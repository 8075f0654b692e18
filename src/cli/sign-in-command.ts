import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { Command } from "commander";
import { CreateSignInLinkResponseSchema } from "#gen/keyrun/v1/session_service_pb.ts";
import { answer, type JsonOption, rpcCommand, type Terminal } from "./terminal.ts";

/** `sign-in-link`: prints the link alone on standard output, so that it can be piped. */
export function addSignInCommand(program: Command, terminal: Terminal): void {
  rpcCommand(program, "sign-in-link", "Make a link that signs you in to the screen, once.").action(
    async (options: JsonOption) => {
      const message = await terminal.server().sessions.createSignInLink({});
      answer(terminal, options, { desc: CreateSignInLinkResponseSchema, message }, () => {
        terminal.print(message.url);
        terminal.note(linkWords(message.expireTime && timestampDate(message.expireTime)));
      });
    },
  );
}

function linkWords(expireTime: Date | undefined): string {
  const until = expireTime ? ` until ${expireTime.toISOString().slice(0, 19)}Z` : "";
  return `Open it in a browser on this machine. It works once${until}, and signs in the person who opens it.`;
}
