import { wrongUse } from "./command-failure.ts";
import type { TeamOption } from "./key-commands.ts";
import { timeWords } from "./table.ts";
import { chooseTeam } from "./team-choice.ts";
import { answer, type Terminal } from "./terminal.ts";
import { readNewExpiry } from "./time-options.ts";

export interface CreateKeyOptions extends TeamOption {
  readonly label?: string;
  readonly expires?: string;
  readonly app?: readonly string[];
  readonly requestsPerMinute?: string;
}

export async function createKey(terminal: Terminal, options: CreateKeyOptions): Promise<void> {
  const expiry = options.expires === undefined ? {} : { expireTime: readNewExpiry(options.expires) };
  const { app: appIds = [], requestsPerMinute: perMinute } = options;
  const restrictions = {
    // An older server knows no such field.
    ...(appIds.length > 0 && { appIds: [...appIds] }),
    ...(perMinute !== undefined && { requestsPerMinute: readCount(perMinute) }),
  };
  const { keys } = await terminal.server();
  const teamId = await chooseTeam(terminal, options.team);
  const message = await keys.createKey({ teamId, label: options.label ?? "", ...expiry, ...restrictions });
  await answer(terminal, options, message, () => terminal.print(message.value ?? ""));
  const label = message.key?.label ? ` (${message.key.label})` : "";
  terminal.note(`Key ${message.key?.id}${label} of team ${teamId} is created.`);
  const { expireTime } = message.key ?? {};
  if (expireTime !== undefined) terminal.note(`It expires at ${timeWords(expireTime)}.`);
  terminal.note("It is shown only once: store it where you keep secrets.");
}

/** The server knows the largest number: the plan's. */
function readCount(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw wrongUse("--requests-per-minute must be a whole number from 1 to the plan's limit, like 10.");
}
