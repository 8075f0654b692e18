import type { Command } from "commander";
import {
  AddMemberResponseSchema,
  ListMembersResponseSchema,
  RemoveMemberResponseSchema,
} from "#gen/keyrun/v1/team_service_pb.ts";
import { allPages, pageSize } from "./pages.ts";
import { renderTable, renderTime } from "./table.ts";
import { answer, type JsonOption, rpcCommand, type Terminal } from "./terminal.ts";

/** `members add | remove | list`. */
export function addMemberCommands(program: Command, terminal: Terminal): void {
  const members = program.command("members").description("Manage who belongs to a team.");

  rpcCommand(members, "add <team_id> <email>", "Add a member.").action(
    async (teamId: string, email: string, options: JsonOption) => {
      const message = await terminal.server().teams.addMember({ teamId, email });
      answer(terminal, options, { desc: AddMemberResponseSchema, message }, () =>
        terminal.print(`${message.member?.email ?? email} belongs to team ${teamId}.`),
      );
    },
  );

  rpcCommand(members, "remove <team_id> <email>", "Remove a member; the team's keys keep working.").action(
    async (teamId: string, email: string, options: JsonOption) => {
      const message = await terminal.server().teams.removeMember({ teamId, email });
      answer(terminal, options, { desc: RemoveMemberResponseSchema, message }, () =>
        terminal.print(`${email} does not belong to team ${teamId}.`),
      );
    },
  );

  rpcCommand(members, "list <team_id>", "List a team's members.").action(
    (teamId: string, options: JsonOption) => listMembers(terminal, teamId, options),
  );
}

async function listMembers(terminal: Terminal, teamId: string, options: JsonOption): Promise<void> {
  const { teams: client } = terminal.server();
  const pages = await allPages((pageToken) => client.listMembers({ teamId, pageSize, pageToken }));
  const members = pages.flatMap((page) => page.members);
  const message = { ...pages[0], members, nextPageToken: "" };
  answer(terminal, options, { desc: ListMembersResponseSchema, message }, () => {
    const rows = members.map(({ email, createTime }) => [email, renderTime(createTime)]);
    for (const line of renderTable(["EMAIL", "ADDED"], rows)) terminal.print(line);
  });
}
