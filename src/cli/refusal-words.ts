import type { Command } from "commander";
import { nearestName } from "../settings/read-settings.ts";
import { CallRefused, type CallUnanswered } from "./call-errors.ts";
import { CommandFailure, wrongUse } from "./command-failure.ts";
import type { Connection } from "./connection.ts";
import { appIds, type IdList, teamIds } from "./id-lists.ts";
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
  SERVICE_ROLE_REQUIRED: (facts) => roleWords(facts),
  SERVICE_TOKEN_EXISTS: ({ name }) =>
    name &&
    `An accepted service token has the name \`${name}\`. Choose another name, or revoke that one first with \`./keyrun service-tokens revoke ${name}\`.`,
  TEAM_EXISTS: ({ team_id: id }) =>
    id && `There is already a team \`${id}\`. Choose another id, or see all with \`./keyrun teams list\`.`,
  TEAM_HAS_KEYS: ({ team_id: id, active_key_count: count }) =>
    id &&
    `Team \`${id}\` has active keys (${count}), so it was not deleted. Revoke them first: \`./keyrun keys list --team ${id}\` shows them.`,
  TEAM_HAS_APPS: ({ team_id: id, app_ids: apps }) =>
    id &&
    `Apps are limited to team \`${id}\` (${apps}), so it was not deleted. Limit them to other teams with \`./keyrun apps update <app_id> --team <team_id>\`, or delete them.`,
  TEAM_ENDING: ({ team_id: id }) =>
    id &&
    `Team \`${id}\` is being deleted, so nothing can be added to it. If its deletion was interrupted, repeat it with \`./keyrun teams delete ${id}\`.`,
  KEY_LIMIT_REACHED: ({ active_key_count_max: most }) =>
    most &&
    `The team has ${most} active keys, the most it may have. Revoke one first: \`./keyrun keys list\` shows them.`,
  APP_EXISTS: ({ app_id: id }) =>
    id &&
    `There is already an app \`${id}\`. Choose another id, or change it with \`./keyrun apps update ${id}\`.`,
};

async function missing(
  what: "team" | "app",
  id: string | undefined,
  list: () => Promise<IdList>,
): Promise<string> {
  // The server may stop between the refusal and this call. The sentence does without the list then.
  const { ids, words } = await list().catch(() => ({ ids: [], words: "" }));
  const near = id && nearestName(id, ids);
  const hint = near ? ` Did you mean \`${near}\`?` : "";
  // The server names no id that does not have the form of one: it may be something else, pasted.
  const named = id === undefined ? `no such ${what}` : `no ${what} \`${id}\``;
  const all = words && ` ${what === "team" ? "Teams" : "Apps"}: ${words}.`;
  return `There is ${named}.${hint}${all}`;
}

/** The service may be one of a person: an operator who works with a lesser token. */
function roleWords({ service, role, team_ids: teams }: Facts): string | undefined {
  if (service === undefined || role === undefined) return undefined;
  const other =
    "Set KEYRUN_SERVICE_TOKEN to another token, or unset it where the server's own is in the data folder.";
  if (teams === undefined) {
    const needed = role === "admin" ? "the role admin" : `the role ${role} or admin`;
    return `The service token \`${service}\` may not do this: it needs ${needed}. ${other}`;
  }
  const own = teams === "" ? "It has none." : `Its teams are ${teams}: name one with --team.`;
  return `The service token \`${service}\` is not for this team. ${own} ${other}`;
}

/** The options and arguments that fill a field, by the end of the field's path. */
const fillers: readonly (readonly [RegExp, readonly string[]])[] = [
  [/(^|\.)display_name$/, ["--name"]],
  [/(^|\.)label$/, ["--label"]],
  [/(^|\.)query$/, ["--search"]],
  [/^expire_time$/, ["--expires"]],
  [/^start_time$/, ["--since"]],
  [/^overlap$/, ["--overlap"]],
  [/(^|\.)email$/, ["<email>"]],
  [/(^|\.)plan$/, ["--plan", "<plan>"]],
  [/(^|\.)(team\.id|team_ids?(\[\d+\])?)$/, ["--team", "<team_id>"]],
  [/(^|\.)(app\.id|app_id)$/, ["<app_id>"]],
  [/^name$/, ["<name>"]],
  [/^role$/, ["--role"]],
  [/(^|\.)app_ids$/, ["--app"]],
  [/(^|\.)requests_per_minute$/, ["--requests-per-minute"]],
  [/(^|\.)key_id$/, ["<key>"]],
  [/(^|\.)url$/, ["--url"]],
  [/(^|\.)headers(\[\d+\].*)?$/, ["--header"]],
  [/(^|\.)target$/, ["--target"]],
  [/(^|\.)timeout$/, ["--timeout"]],
  [/(^|\.)stream_timeout$/, ["--stream-timeout"]],
];

/**
 * The words with the option or argument of the command in place of the field's path, with which a
 * refusal begins. Further on, the same letters may be a plain word, such as the verb "name".
 */
function inOptions(words: string, field: string, command: Command): string {
  const known = new Set([
    ...command.options.map(({ long }) => long),
    ...command.registeredArguments.map((argument) => `<${argument.name()}>`),
  ]);
  const names = fillers.find(([form]) => form.test(field))?.[1] ?? [];
  const name = names.find((candidate) => known.has(candidate));
  if (name === undefined) return words;
  const begins = [`${field} `, `${field}:`].some((head) => words.startsWith(head));
  return begins ? name + words.slice(field.length) : `${name}: ${words}`;
}
