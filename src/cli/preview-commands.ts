import type { Command } from "commander";
import { commandGroup, rpcCommand } from "./command-words.ts";
import { allPages, pageSize } from "./pages.ts";
import { printTable } from "./table.ts";
import { answer, type JsonOption, type Terminal } from "./terminal.ts";

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
  }).action((options: JsonOption) => listPreviewAccess(terminal, options));
}

async function listPreviewAccess(terminal: Terminal, options: JsonOption): Promise<void> {
  const { teams: client } = await terminal.server();
  const pages = await allPages((pageToken) => client.listPreviewAccess({ pageSize, pageToken }));
  const emails = pages.flatMap((page) => page.emails ?? []);
  const message = { ...pages[0], emails, nextPageToken: "" };
  await answer(terminal, options, message, () =>
    printTable(
      terminal,
      [{ head: "EMAIL", least: 20 }],
      emails.map((email) => ({ cells: [email] })),
    ),
  );
}
