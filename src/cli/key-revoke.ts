import type { TeamOption } from "./key-commands.ts";
import { withNamedKey } from "./key-name.ts";
import { timeWords } from "./table.ts";
import { answer, type Terminal } from "./terminal.ts";

/** Revokes the key that a text names. */
export async function revokeKey(terminal: Terminal, text: string, options: TeamOption): Promise<void> {
  const { keys } = await terminal.server();
  const message = await withNamedKey(terminal, { text, team: options.team }, keys.revokeKey);
  const { id, revokeTime = "" } = message.key ?? {};
  await answer(terminal, options, message, () =>
    terminal.print(`Key ${id} was revoked at ${timeWords(revokeTime)}.`),
  );
}
