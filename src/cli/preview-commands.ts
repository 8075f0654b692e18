import type { Command } from "commander";
import {
  ListPreviewAccessResponseSchema,
  SetPreviewAccessResponseSchema,
} from "#gen/keyrun/v1/team_service_pb.ts";
import { allPages, pageSize } from "./pages.ts";
import { renderTable } from "./table.ts";
import { answer, type JsonOption, rpcCommand, type Terminal } from "./terminal.ts";

/** `preview grant | withdraw | list`. */
export function addPreviewCommands(program: Command, terminal: Terminal): void {
  const preview = program.command("preview").description("Manage who has access to the private preview.");
  const set = async (email: string, granted: boolean, options: JsonOption) => {
    const message = await terminal.server().teams.setPreviewAccess({ email, granted });
    answer(terminal, options, { desc: SetPreviewAccessResponseSchema, message }, () =>
      terminal.print(`${email} has ${granted ? "" : "no "}preview access.`),
    );
  };

  rpcCommand(preview, "grant <email>", "Give a user preview access.").action(
    (email: string, options: JsonOption) => set(email, true, options),
  );
  rpcCommand(preview, "withdraw <email>", "Take preview access back; the team's keys keep working.").action(
    (email: string, options: JsonOption) => set(email, false, options),
  );
  rpcCommand(preview, "list", "List the users who have preview access.").action((options: JsonOption) =>
    listPreviewAccess(terminal, options),
  );
}

async function listPreviewAccess(terminal: Terminal, options: JsonOption): Promise<void> {
  const { teams: client } = terminal.server();
  const pages = await allPages((pageToken) => client.listPreviewAccess({ pageSize, pageToken }));
  const emails = pages.flatMap((page) => page.emails);
  const message = { ...pages[0], emails, nextPageToken: "" };
  answer(terminal, options, { desc: ListPreviewAccessResponseSchema, message }, () => {
    const rows = emails.map((email) => [email]);
    for (const line of renderTable(["EMAIL"], rows)) terminal.print(line);
  });
}
