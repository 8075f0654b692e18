import { wrongUse } from "./command-failure.ts";
import type { TeamOption } from "./key-commands.ts";
import { withNamedKey } from "./key-name.ts";
import { timeWords } from "./table.ts";
import { answer, type Terminal } from "./terminal.ts";
import { readDuration, readExpiry } from "./time-options.ts";

export interface UpdateOptions extends TeamOption {
  label?: string;
  expires?: string;
}

/** Changes the label or the expiry of the key that a text names. */
export async function updateKey(terminal: Terminal, text: string, options: UpdateOptions): Promise<void> {
  const { label, expires } = options;
  if (label === undefined && expires === undefined) {
    throw wrongUse("Say what to change: give --label, --expires, or both.");
  }
  const change = {
    ...(label !== undefined && { label }),
    ...(expires !== undefined && { expireTime: readExpiry(expires) }),
  };
  const { keys } = await terminal.server();
  const updateMask = Object.keys(change).join(",");
  const message = await withNamedKey(terminal, { text, team: options.team }, (named) =>
    keys.updateKey({ ...named, ...change, updateMask }),
  );
  const { id, label: called, expireTime } = message.key ?? {};
  const expiry = expireTime === undefined ? "" : ` It expires at ${timeWords(expireTime)}.`;
  await answer(terminal, options, message, () =>
    terminal.print(`Key ${id} is changed: its label is ${called || "empty"}.${expiry}`),
  );
}

/** Replaces the key that a text names, and prints the new one alone. */
export async function rotateKey(
  terminal: Terminal,
  text: string,
  options: TeamOption & { readonly overlap?: string },
): Promise<void> {
  const overlap = readDuration(options.overlap ?? "0", "--overlap");
  const { keys } = await terminal.server();
  const message = await withNamedKey(terminal, { text, team: options.team }, (named) =>
    keys.rotateKey({ ...named, overlap }),
  );
  await answer(terminal, options, message, () => terminal.print(message.value ?? ""));
  const { key, replacedKey: old } = message;
  terminal.note(`Key ${key?.id} of team ${key?.teamId} replaces key ${old?.id}.`);
  const { revokeTime, expireTime = "" } = old ?? {};
  terminal.note(
    revokeTime === undefined
      ? `The old key works until ${timeWords(expireTime)}.`
      : `The old key was revoked at ${timeWords(revokeTime)}.`,
  );
  if (key?.expireTime !== undefined) terminal.note(`The new key expires at ${timeWords(key.expireTime)}.`);
  terminal.note("The new key is shown only once: store it where you keep secrets.");
}
