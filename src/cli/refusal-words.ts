/** A failed call in words, for a person who typed a command and knows no messages and fields. */

import type { Command } from "commander";
import { nearestName } from "../settings/read-settings.ts";
import { programName, startCommand } from "./called.ts";
import { type Connection, rpcMsMax } from "./connection.ts";
import { CallRefused, type CallUnanswered, CommandFailure, wrongUse } from "./failures.ts";
import { appIds, type IdList, teamIds } from "./lists.ts";

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

/** Turns a failed call into a sentence that says what to do. Keyrun's refusals keep their words. */
export function failureFrom(error: CallRefused | CallUnanswered, address: string): CommandFailure {
  const sentence = error instanceof CallRefused ? refusedWords(error, address) : wordsFor(error.why, address);
  return new CommandFailure(sentence, { cause: error });
}

function refusedWords({ code, reason, message }: CallRefused, address: string): string {
  if (code === "unauthenticated") return tokenRefused(address);
  // Keyrun's refusals carry a reason. An error without one is another server's.
  if (reason !== undefined) return message;
  return wordsFor(code === "deadline_exceeded" ? "LATE" : "STRANGE", address);
}

function wordsFor(why: string, address: string): string {
  if (notThere.has(why)) return `Keyrun is not running at ${address}: start it with \`${startCommand}\`.`;
  const tls = tlsTrouble(why);
  if (tls !== undefined) return `The TLS connection to ${address} failed (${why}): ${tls}`;
  if (why === "LATE") {
    return `Keyrun did not answer at ${address} within ${rpcMsMax / 1000} s: try again, or see its log.`;
  }
  return `What answers at ${address} is not Keyrun's internal listener, or it hung up: check KEYRUN_GRPC_HOST and KEYRUN_GRPC_PORT. If the listener uses TLS, set ${tlsFileNames} for this command as for the server.`;
}

const notThere = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ETIMEDOUT",
]);

function tokenRefused(address: string): string {
  return `Keyrun at ${address} refused the service token: use its KEYRUN_SERVICE_TOKEN, or the KEYRUN_DATA_DIR that its token is in.`;
}

const tlsFileNames = "KEYRUN_GRPC_TLS_CERT_FILE, KEYRUN_GRPC_TLS_KEY_FILE and KEYRUN_GRPC_TLS_CLIENT_CA_FILE";

/**
 * What to do about an error of Node's TLS, by its code: names the setting that is at fault.
 * Undefined if the code is none of TLS.
 */
function tlsTrouble(code: string): string | undefined {
  return troubles.find(({ codes }) => codes.test(code))?.words;
}

const troubles: readonly { readonly codes: RegExp; readonly words: string }[] = [
  {
    codes: /WRONG_VERSION_NUMBER|PACKET_LENGTH|^EPROTO$/,
    words: `what listens there uses no TLS: remove ${tlsFileNames}, or set them for the server, too.`,
  },
  {
    codes: /ALTNAME/,
    words:
      "the server's certificate is not for this address: make the one in its KEYRUN_GRPC_TLS_CERT_FILE for this name, too.",
  },
  {
    codes: /^CERT_(HAS_EXPIRED|NOT_YET_VALID)$/,
    words:
      "the server's certificate is not valid now: renew the one in its KEYRUN_GRPC_TLS_CERT_FILE, and restart it.",
  },
  {
    codes: /PURPOSE/,
    words:
      "the certificate in KEYRUN_GRPC_TLS_CERT_FILE must be for servers and for clients: make it with both, or without extendedKeyUsage.",
  },
  {
    // An alert comes from the other side, about what this side has shown.
    codes: /ALERT/,
    words:
      "the server refused the certificate in this command's KEYRUN_GRPC_TLS_CERT_FILE: name the server's own, and its KEYRUN_GRPC_TLS_KEY_FILE.",
  },
  {
    codes: /CERT|ISSUER|LEAF_SIGNATURE/,
    words:
      "the authority in this command's KEYRUN_GRPC_TLS_CLIENT_CA_FILE has not signed the server's certificate: name the server's own.",
  },
  { codes: /SSL|TLS/, words: `${tlsFileNames} must be those of the server.` },
];

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
    `An accepted service token has the name \`${name}\`. Choose another name, or revoke that one first with \`${programName} service-tokens revoke ${name}\`.`,
  TEAM_EXISTS: ({ team_id: id }) =>
    id &&
    `There is already a team \`${id}\`. Choose another id, or see all with \`${programName} teams list\`.`,
  TEAM_HAS_KEYS: ({ team_id: id, active_key_count: count }) =>
    id &&
    `Team \`${id}\` has active keys (${count}), so it was not deleted. Revoke them first: \`${programName} keys list --team ${id}\` shows them.`,
  TEAM_HAS_APPS: ({ team_id: id, app_ids: apps }) =>
    id &&
    `Apps are limited to team \`${id}\` (${apps}), so it was not deleted. Limit them to other teams with \`${programName} apps update <app_id> --team <team_id>\`, or delete them.`,
  TEAM_ENDING: ({ team_id: id }) =>
    id &&
    `Team \`${id}\` is being deleted, so nothing can be added to it. If its deletion was interrupted, repeat it with \`${programName} teams delete ${id}\`.`,
  KEY_LIMIT_REACHED: ({ active_key_count_max: most }) =>
    most &&
    `The team has ${most} active keys, the most it may have. Revoke one first: \`${programName} keys list\` shows them.`,
  APP_EXISTS: ({ app_id: id }) =>
    id &&
    `There is already an app \`${id}\`. Choose another id, or change it with \`${programName} apps update ${id}\`.`,
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

/**
 * The words with the option or argument of the command in place of the field's path, with which a
 * refusal begins. Further on, the same letters may be a plain word, such as the verb "name".
 */
function inOptions(words: string, field: string, command: Command): string {
  const known = new Set([
    ...command.options.map(({ long }) => long),
    ...command.registeredArguments.map((argument) => `<${argument.name()}>`),
  ]);
  const last = field.slice(field.lastIndexOf(".") + 1);
  const names = fillers.flatMap(([form, filler]) => (form.test(field) ? filler : []));
  names.push(`--${last.replaceAll("_", "-")}`, `<${last}>`);
  const name = names.find((candidate) => known.has(candidate));
  if (name === undefined) return words;
  const begins = [`${field} `, `${field}:`].some((head) => words.startsWith(head));
  return begins ? name + words.slice(field.length) : `${name}: ${words}`;
}

/** Of the fields whose option or argument has another name, by the end of the field's path. */
const fillers: readonly (readonly [RegExp, string])[] = [
  [/(^|\.)display_name$/, "--name"],
  [/(^|\.)query$/, "--search"],
  [/^expire_time$/, "--expires"],
  [/^start_time$/, "--since"],
  [/(^|\.)(team\.id|team_ids?(\[\d+\])?)$/, "--team"],
  [/(^|\.)team\.id$/, "<team_id>"],
  [/(^|\.)app\.id$/, "<app_id>"],
  [/(^|\.)app_ids$/, "--app"],
  [/(^|\.)key_id$/, "<key>"],
  [/(^|\.)headers(\[\d+\].*)?$/, "--header"],
];
