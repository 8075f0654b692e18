/** Lists of the server, read whole, and the team that a command means where it names none. */

import { programName } from "./called.ts";
import type { Connection } from "./connection.ts";
import { CallRefused, CommandFailure, wrongUse } from "./failures.ts";
import type { Terminal } from "./terminal.ts";

/** The largest page that the server gives, so that a list takes few calls. */
const pageSize = 100;

/** Nobody reads longer tables. Also ends the loop if a server always names a next page. */
const pagesMax = 1_000;

/**
 * Fetches every page of a list (AIP-158) and joins them: the first page, with the items of all in
 * its field `items`. Throws if the list has more than `pagesMax` pages.
 */
export async function wholeList<
  Field extends string,
  Page extends { nextPageToken?: string } & { [Name in Field]?: unknown[] },
>(
  items: Field,
  fetch: (page: { readonly pageSize: number; readonly pageToken: string }) => Promise<Page>,
): Promise<Page & { [Name in Field]: NonNullable<Page[Name]> }> {
  const first = await fetch({ pageSize, pageToken: "" });
  const all: unknown[] = [...(first[items] ?? [])];
  let next = first.nextPageToken ?? "";
  for (let pages = 1; next !== ""; pages++) {
    if (pages === pagesMax) {
      throw new CommandFailure(`The list is longer than ${pagesMax * pageSize} entries: read it over gRPC.`);
    }
    const page = await fetch({ pageSize, pageToken: next });
    all.push(...(page[items] ?? []));
    next = page.nextPageToken ?? "";
  }
  // What stands in the field are items of the pages' own field.
  return Object.assign({}, first, { [items]: all, nextPageToken: "" }) as Page & {
    [Name in Field]: NonNullable<Page[Name]>;
  };
}

/** Some ids, for a sentence. */
export interface IdList {
  /** The first `pageSize` ids, in order. */
  readonly ids: readonly string[];
  /** The first few of them, such as `acme, demo`, and how to see the others. */
  readonly words: string;
}

const idsInWordsMax = 10;

export async function teamIds({ teams }: Connection): Promise<IdList> {
  const page = await teams.listTeams({ pageSize });
  return idList(page.teams, "teams list");
}

export async function appIds({ apps }: Connection): Promise<IdList> {
  const page = await apps.listApps({ pageSize });
  return idList(page.apps, "apps list");
}

function idList(entries: readonly { id?: string }[] = [], command: string): IdList {
  const ids = entries.map(({ id = "" }) => id);
  const more = ids.length > idsInWordsMax ? ` and others: \`${programName} ${command}\` lists all` : "";
  return { ids, words: `${ids.slice(0, idsInWordsMax).join(", ") || "none"}${more}` };
}

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
    throw wrongUse(`There is no team yet. Create one with \`${programName} teams create <team_id>\`.`);
  if (second === undefined) return only;
  throw wrongUse(`Say which team with --team. Teams: ${found.words}.`);
}
