import type { AppJson } from "#gen/keyrun/v1/app_pb.ts";
import { type AppOptions, namesBackend, readBackend, readTimeout } from "./app-options.ts";
import { CallRefused } from "./call-errors.ts";
import { wrongUse } from "./command-failure.ts";
import { answer, type JsonOption, type Terminal } from "./terminal.ts";

export async function createApp(
  terminal: Terminal,
  appId: string,
  options: AppOptions & JsonOption,
): Promise<void> {
  const app = {
    id: appId,
    displayName: options.name ?? "",
    backend: readBackend(options),
    teamIds: [...(options.team ?? [])],
    ...readTimeouts(options),
  };
  const { apps } = await terminal.server();
  const message = await apps.createApp({ app });
  await answer(terminal, options, message, () =>
    terminal.print(`App ${appId} is created, for ${teamWords(message.app)}.`),
  );
}

export async function updateApp(
  terminal: Terminal,
  appId: string,
  options: AppOptions & JsonOption,
): Promise<void> {
  const { name, team, allTeams } = options;
  if (allTeams && team !== undefined) throw wrongUse("Give --team or --all-teams, not both.");
  const change: AppJson = {
    ...(name !== undefined && { displayName: name }),
    ...readTimeouts(options),
    ...((allTeams || team !== undefined) && { teamIds: [...(team ?? [])] }),
  };
  const namesIt = namesBackend(options);
  if (!namesIt && Object.keys(change).length === 0) {
    throw wrongUse(`Say what to change. \`./keyrun apps update --help\` lists the options.`);
  }
  const { apps } = await terminal.server();
  if (namesIt) change.backend = readBackend(options, (await apps.getApp({ appId })).app?.backend);
  const updateMask = Object.keys(change).join(",");
  const message = await apps
    .updateApp({ app: { ...change, id: appId }, updateMask })
    .catch((error: unknown) => {
      const keepsHeaders = options.url !== undefined && options.header === undefined;
      throw keepsHeaders && isAboutHeaders(error) ? wrongUse(headersOfOldServer(appId)) : error;
    });
  await answer(terminal, options, message, () =>
    terminal.print(`App ${appId} is changed. ${teamWords(message.app, "It is for")}.`),
  );
}

function readTimeouts({ timeout, streamTimeout }: AppOptions): Pick<AppJson, "timeout" | "streamTimeout"> {
  return {
    ...(timeout !== undefined && { timeout: readTimeout(timeout, "--timeout") }),
    ...(streamTimeout !== undefined && { streamTimeout: readTimeout(streamTimeout, "--stream-timeout") }),
  };
}

function isAboutHeaders(error: unknown): boolean {
  return error instanceof CallRefused && error.violations.some(({ field }) => /\bheaders\[/.test(field));
}

function headersOfOldServer(appId: string): string {
  return `The headers of \`${appId}\` may hold credentials, so they stay with its old server. Give them again with --header, or send none with --no-headers.`;
}

function teamWords({ teamIds = [] }: AppJson = {}, before = ""): string {
  return `${before} ${teamIds.join(", ") || "all teams"}`.trim();
}
