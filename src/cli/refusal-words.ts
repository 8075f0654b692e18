import type { Command } from "commander";
import { nearestName } from "../settings/nearest-name.ts";
import { CommandFailure, wrongUse } from "./command-failure.ts";
import type { Connection } from "./connection.ts";
import { appIds, type IdList, teamIds } from "./id-lists.ts";
import { CallRefused, type CallUnanswered } from "./rpc-client.ts";
import { failureFrom } from "./rpc-failure.ts";

/**
 * A failed call in a sentence for the person who typed the command. It names what the refusal is
 * about, and speaks of the command's options and arguments, not of the fields of a message.
 */
export async function explain(
  error: CallRefused | CallUnanswered,
  connection: Connection,
  command: Command | undefined,
): Promise<CommandFailure> {
  const plain = failureFrom(error, connection.address);
  if (!(error instanceof CallRefused)) return plain;
  const sentence = await byReason[error.reason ?? ""]?.(error.metadata, connection);
  if (sentence !== undefined) return new CommandFailure(sentence, { cause: error });
  const [violation] = error.violations;
  if (violation === undefined || command === undefined) return plain;
  return wrongUse(inOptions(violation.description, violation.field, command));
}

type Facts = Readonly<Record<string, string>>;

/** The sentence for a reason; undefined if the refusal lacks the facts that the sentence needs. */
const byReason: Readonly<
  Record<string, (facts: Facts, connection: Connection) => string | undefined | Promise<string | undefined>>
> = {
  TEAM_NOT_FOUND: ({ team_id: id }, connection) => missing("team", id, () => teamIds(connection)),
  APP_NOT_FOUND: ({ app_id: id }, connection) => missing("app", id, () => appIds(connection)),
  TEAM_EXISTS: ({ team_id: id }) =>
    id && `There is already a team \`${id}\`. Choose another id, or see all with \`./keyrun teams list\`.`,
  APP_EXISTS: ({ app_id: id }) =>
    id &&
    `There is already an app \`${id}\`. Choose another id, or change it with \`./keyrun apps update ${id}\`.`,
};

async function missing(
  what: "team" | "app",
  id: string | undefined,
  list: () => Promise<IdList>,
): Promise<string | undefined> {
  if (id === undefined) return undefined;
  const { ids, words } = await list();
  const near = nearestName(id, ids);
  const hint = near === undefined ? "" : ` Did you mean \`${near}\`?`;
  return `There is no ${what} \`${id}\`.${hint} ${what === "team" ? "Teams" : "Apps"}: ${words}.`;
}

/** The options and arguments that fill a field, by the end of the field's path. */
const fillers: readonly (readonly [RegExp, readonly string[]])[] = [
  [/(^|\.)display_name$/, ["--name"]],
  [/(^|\.)label$/, ["--label"]],
  [/(^|\.)query$/, ["--search"]],
  [/(^|\.)email$/, ["<email>"]],
  [/(^|\.)plan$/, ["--plan", "<plan>"]],
  [/(^|\.)(team\.id|team_ids?(\[\d+\])?)$/, ["--team", "<team_id>"]],
  [/(^|\.)(app\.id|app_id)$/, ["<app_id>"]],
  [/(^|\.)key_id$/, ["<key>"]],
  [/(^|\.)url$/, ["--url"]],
  [/(^|\.)headers(\[\d+\].*)?$/, ["--header"]],
  [/(^|\.)target$/, ["--target"]],
  [/(^|\.)timeout$/, ["--timeout"]],
];

/** The words with the option or argument of the command in place of the field's path. */
function inOptions(words: string, field: string, command: Command): string {
  const known = new Set([
    ...command.options.map(({ long }) => long),
    ...command.registeredArguments.map((argument) => `<${argument.name()}>`),
  ]);
  const names = fillers.find(([form]) => form.test(field))?.[1] ?? [];
  const name = names.find((candidate) => known.has(candidate));
  if (name === undefined) return words;
  return words.includes(field) ? words.replaceAll(field, name) : `${name}: ${words}`;
}
