import type { Connection } from "./connection.ts";
import { pageSize } from "./pages.ts";

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
  const more = ids.length > idsInWordsMax ? ` and others: \`./keyrun ${command}\` lists all` : "";
  return { ids, words: `${ids.slice(0, idsInWordsMax).join(", ") || "none"}${more}` };
}
