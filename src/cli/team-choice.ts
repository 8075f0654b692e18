import { CallRefused } from "./call-errors.ts";
import { wrongUse } from "./command-failure.ts";
import { teamIds } from "./id-lists.ts";
import type { Terminal } from "./terminal.ts";

/** The team that `--team` names; without it, the only team there is. */
export async function chooseTeam(terminal: Terminal, given: string | undefined): Promise<string> {
  if (given !== undefined) return given;
  const found = await teamIds(await terminal.server()).catch((error: unknown) => {
    // A service that may manage some teams may not list all.
    const mayNotList = error instanceof CallRefused && error.reason === "SERVICE_ROLE_REQUIRED";
    throw mayNotList ? wrongUse("Say which team with --team: this service token may not list them.") : error;
  });
  const [only, second] = found.ids;
  if (only === undefined)
    throw wrongUse("There is no team yet. Create one with `./keyrun teams create <team_id>`.");
  if (second === undefined) return only;
  throw wrongUse(`Say which team with --team. Teams: ${found.words}.`);
}
