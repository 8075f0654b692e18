/** How a person names a key: by its id, its redacted form, or by mistake the whole key. */

import type { KeyJson } from "#gen/keyrun/v1/key_pb.ts";
import { programName } from "./called.ts";
import { CallRefused, CommandFailure, wrongUse } from "./failures.ts";
import { chooseTeam, wholeList } from "./lists.ts";
import { timeWords } from "./table.ts";
import type { Terminal } from "./terminal.ts";

/**
 * Does a call on the key that a text names, and returns its answer. A whole key counts as its id,
 * and is never printed. Where the team has no such key, the failure says how to list its keys.
 */
export async function withNamedKey<Answer>(
  terminal: Terminal,
  { text, team }: { readonly text: string; readonly team: string | undefined },
  call: (named: { readonly teamId: string; readonly keyId: string }) => Promise<Answer>,
): Promise<Answer> {
  const named = readName(text);
  const teamId = await chooseTeam(terminal, team);
  const keyId = named.id ?? (await findRedacted(terminal, { teamId, redacted: named.redacted }));
  if (named.isWhole) terminal.note(wholeKeyWords);
  return call({ teamId, keyId }).catch((error: unknown) => {
    const isUnknown = error instanceof CallRefused && error.reason === "KEY_NOT_FOUND";
    throw isUnknown ? unknownKey(teamId, keyId) : error;
  });
}

const wholeKeyWords =
  "You gave the whole key. Shells keep a history of what is typed: next time, give its id alone, and remove this line from the history.";

type KeyName =
  | { readonly id: string; readonly isWhole: boolean; readonly redacted?: undefined }
  | { readonly redacted: string; readonly isWhole: false; readonly id?: undefined };

// Crockford's base32. The operator may have set any prefix, and an old key may have another one.
const keyIdForm = /^(?:[a-z][a-z0-9]{0,11}_)?([0-9a-z]{24})(?:\..*)?$/is;
const redactedForm = /^([0-9a-z_]{8})(?:…|\.{3})([0-9a-z]{4})$/i;

/** The id in lower case, from the id, the id after a prefix, or a whole key; undefined without. */
export function keyIdIn(text: string): string | undefined {
  return keyIdForm.exec(text.trim())?.[1]?.toLowerCase();
}

function readName(text: string): KeyName {
  const id = keyIdIn(text);
  if (id !== undefined) return { id, isWhole: text.includes(".") };
  const [, start, end] = redactedForm.exec(text.trim()) ?? [];
  if (start !== undefined) return { redacted: `${start}…${end}`, isWhole: false };
  // The text may be a part of a key, so it is not repeated.
  throw wrongUse(
    `This names no key. Give its id, which has 24 letters and digits, svc_<id>, or its redacted form, like svc_7k3f…x9Qz. \`${programName} keys list\` shows them.`,
  );
}

/** The id of the one key with this redacted form. An active key goes before revoked ones. */
async function findRedacted(
  terminal: Terminal,
  { teamId, redacted }: { readonly teamId: string; readonly redacted: string },
): Promise<string> {
  const { keys: client } = await terminal.server();
  const find = async (showRevoked: boolean) => {
    const request = { teamId, query: redacted, showRevoked };
    const { keys } = await wholeList("keys", (page) => client.listKeys({ ...request, ...page }));
    return keys.filter(({ redactedValue }) => redactedValue === redacted);
  };
  const active = await find(false);
  const fitting = active.length > 0 ? active : await find(true);
  const [only, second] = fitting;
  if (only?.id === undefined) throw unknownKey(teamId, redacted);
  if (second === undefined) return only.id;
  const candidates = fitting.map((key) => `\n  ${candidateWords(key)}`).join("");
  throw new CommandFailure(
    `Several keys of team ${teamId} look like ${redacted}. Give the id of one:${candidates}`,
  );
}

/** The team's key with this id, whatever its state. Throws where there is none. */
export async function readKey(
  terminal: Terminal,
  { teamId, keyId }: { readonly teamId: string; readonly keyId: string },
): Promise<KeyJson> {
  const { keys: client } = await terminal.server();
  const request = { teamId, query: keyId, showRevoked: true };
  const { keys } = await wholeList("keys", (page) => client.listKeys({ ...request, ...page }));
  // Keys whose labels have the id in them fit the query, too.
  const key = keys.find(({ id }) => id === keyId);
  if (key === undefined) throw unknownKey(teamId, keyId);
  return key;
}

function unknownKey(teamId: string, key: string): CommandFailure {
  return new CommandFailure(
    `Team ${teamId} has no key ${key}. List its keys with \`${programName} keys list --team ${teamId}\`.`,
  );
}

function candidateWords({ id, label, createTime = "" }: KeyJson): string {
  return `${id}  ${label || "-"}, created ${timeWords(createTime)}`;
}
