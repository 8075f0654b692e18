/**
 * `apps check`: a run that shows why an app fails, and the warning of `apps create` and `update`.
 */

import type { CheckAppResponseJson } from "#gen/keyrun/v1/app_service_pb.ts";
import { programName } from "../base/program.ts";
import { bounds } from "../bounds.ts";
import type { Connection, SettingsWorld } from "./connection.ts";
import { readInputFile } from "./input-file.ts";
import { printFields } from "./table.ts";
import { answer, type JsonOption, type Terminal } from "./terminal.ts";

/** Exit status 0: a run of the app succeeds, 1: it does not. */
export async function checkApp(
  terminal: Terminal,
  appId: string,
  { text, input: file, world, ...options }: CheckOptions & { readonly world: SettingsWorld },
): Promise<void> {
  const input = file === undefined ? undefined : JSON.parse(await readInputFile(terminal, world, file));
  const sent =
    input === undefined ? { text: text ?? "hello" } : { input, ...(text !== undefined && { text }) };
  const { apps } = await terminal.server();
  // The server answers when the app's own timeout is over.
  const message = await apps.checkApp({ appId, ...sent }, bounds.appTimeoutMsMax + answerMsMax);
  terminal.endWith(message.succeeded ? 0 : 1);
  await answer(terminal, options, message, () => printFields(terminal, fieldsOf(appId, message)));
}

const answerMsMax = 10_000;

export interface CheckOptions extends JsonOption {
  readonly text?: string;
  readonly input?: string;
}

function fieldsOf(appId: string, message: CheckAppResponseJson): [string, string | undefined][] {
  const { succeeded, reason = "", sent, status, mediaType, body, output, problem, advice } = message;
  const code = reason.toLowerCase();
  return [
    ["app", appId],
    ["a run", succeeded ? "succeeds" : `is refused: ${code}`],
    ["sent", sent || undefined],
    ["answered", [status, mediaType].filter(Boolean).join(" ") || undefined],
    ["body", body || undefined],
    ["output", succeeded ? (output ?? "") : undefined],
    ["problem", problem || undefined],
    ["to do", advice || undefined],
  ];
}

/** Says on standard error where nothing answers at a new address. The app is stored anyhow. */
export async function warnUnlessReached(
  terminal: Terminal,
  apps: Connection["apps"],
  appId: string,
): Promise<void> {
  // The command has done its work, whatever comes of this.
  const found = await apps.checkApp({ appId, connectOnly: true }).catch(() => undefined);
  if (found === undefined || found.succeeded) return;
  terminal.note(
    `Nothing answers there now: ${found.problem ?? ""}. ${found.advice ?? ""} \`${programName} apps check ${appId}\` then tries a run.`,
  );
}
