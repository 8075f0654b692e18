/**
 * Who may use the screen: members of teams, users with preview access, and the link that signs in.
 */

import type { Command } from "commander";
import { commandGroup, rpcCommand } from "./command-words.ts";
import { wholeList } from "./lists.ts";
import { printTable, timeCell, timeWords } from "./table.ts";
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

  rpcCommand(members, "list", {
    does: "List a team's members.",
    examples: ["members list demo"],
    table: true,
  })
    .argument("<team_id>", "the team")
    .action((teamId: string, options: JsonOption) => listMembers(terminal, teamId, options));
}

async function listMembers(terminal: Terminal, teamId: string, options: JsonOption): Promise<void> {
  const { teams: client } = await terminal.server();
  const message = await wholeList("members", (page) => client.listMembers({ teamId, ...page }));
  await answer(terminal, options, message, () =>
    printTable(
      terminal,
      [
        { head: "EMAIL", least: 20 },
        { head: "ADDED", spare: 1 },
      ],
      message.members.map(({ email = "", createTime }) => ({ cells: [email, timeCell(createTime)] })),
    ),
  );
}

/** `preview grant | withdraw | list`. */
export function addPreviewCommands(program: Command, terminal: Terminal): void {
  const preview = commandGroup(program, "preview", {
    does: "Manage who has access to the private preview.",
    examples: ["preview grant ada@example.com", "preview list"],
  });
  const set = async (email: string, granted: boolean, options: JsonOption) => {
    const message = await (await terminal.server()).teams.setPreviewAccess({ email, granted });
    await answer(terminal, options, message, () =>
      terminal.print(`${email} has ${granted ? "" : "no "}preview access.`),
    );
  };

  rpcCommand(preview, "grant", {
    does: "Give a user preview access.",
    examples: ["preview grant ada@example.com"],
  })
    .argument("<email>", "the user's e-mail")
    .action((email: string, options: JsonOption) => set(email, true, options));

  rpcCommand(preview, "withdraw", {
    does: "Take preview access back; the team's keys keep working.",
    examples: ["preview withdraw ada@example.com"],
  })
    .argument("<email>", "the user's e-mail")
    .action((email: string, options: JsonOption) => set(email, false, options));

  rpcCommand(preview, "list", {
    does: "List the users who have preview access.",
    examples: ["preview list"],
    table: true,
  }).action((options: JsonOption) => listPreviewAccess(terminal, options));
}

async function listPreviewAccess(terminal: Terminal, options: JsonOption): Promise<void> {
  const { teams: client } = await terminal.server();
  const message = await wholeList("emails", client.listPreviewAccess);
  await answer(terminal, options, message, () =>
    printTable(
      terminal,
      [{ head: "EMAIL", least: 20 }],
      message.emails.map((email) => ({ cells: [email] })),
    ),
  );
}

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
