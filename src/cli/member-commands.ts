import type { Command } from "commander";
import { commandGroup, rpcCommand } from "./command-words.ts";
import { allPages, pageSize } from "./pages.ts";
import { printTable, timeCell } from "./table.ts";
import { answer, type JsonOption, type Terminal } from "./terminal.ts";

/** `members add | remove | list`. */
export function addMemberCommands(program: Command, terminal: Terminal): void {
  const members = commandGroup(program, "members", {
    does: "Manage who belongs to a team.",
    examples: ["members add demo ada@example.com", "members list demo"],
  });

  rpcCommand(members, "add", { does: "Add a member.", examples: ["members add demo ada@example.com"] })
    .argument("<team_id>", "the team")
    .argument("<email>", "the e-mail that the person signs in with")
    .action(async (teamId: string, email: string, options: JsonOption) => {
      const message = await (await terminal.server()).teams.addMember({ teamId, email });
      await answer(terminal, options, message, () =>
        terminal.print(`${message.member?.email ?? email} belongs to team ${teamId}.`),
      );
    });

  rpcCommand(members, "remove", {
    does: "Remove a member; the team's keys keep working.",
    examples: ["members remove demo ada@example.com"],
  })
    .argument("<team_id>", "the team")
    .argument("<email>", "the member's e-mail")
    .action(async (teamId: string, email: string, options: JsonOption) => {
      const message = await (await terminal.server()).teams.removeMember({ teamId, email });
      await answer(terminal, options, message, () =>
        terminal.print(`${email} does not belong to team ${teamId}.`),
      );
    });

  rpcCommand(members, "list", { does: "List a team's members.", examples: ["members list demo"] })
    .argument("<team_id>", "the team")
    .action((teamId: string, options: JsonOption) => listMembers(terminal, teamId, options));
}

async function listMembers(terminal: Terminal, teamId: string, options: JsonOption): Promise<void> {
  const { teams: client } = await terminal.server();
  const pages = await allPages((pageToken) => client.listMembers({ teamId, pageSize, pageToken }));
  const members = pages.flatMap((page) => page.members ?? []);
  const message = { ...pages[0], members, nextPageToken: "" };
  await answer(terminal, options, message, () =>
    printTable(
      terminal,
      [{ head: "EMAIL", least: 20 }, { head: "ADDED" }],
      members.map(({ email = "", createTime }) => ({ cells: [email, timeCell(createTime)] })),
    ),
  );
}
