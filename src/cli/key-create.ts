import type { TeamOption } from "./key-commands.ts";
import { chooseTeam } from "./team-choice.ts";
import { answer, type Terminal } from "./terminal.ts";

export async function createKey(
  terminal: Terminal,
  options: TeamOption & { readonly label?: string },
): Promise<void> {
  const { keys } = await terminal.server();
  const teamId = await chooseTeam(terminal, options.team);
  const message = await keys.createKey({ teamId, label: options.label ?? "" });
  await answer(terminal, options, message, () => terminal.print(message.value ?? ""));
  const label = message.key?.label ? ` (${message.key.label})` : "";
  terminal.note(`Key ${message.key?.id}${label} of team ${teamId} is created.`);
  terminal.note("It is shown only once: store it where you keep secrets.");
}
