/** `apps …`: the commands. */

import type { Command } from "commander";
import type { AppJson } from "#gen/keyrun/v1/app_pb.ts";
import {
  addBackendClearing,
  addBackendOptions,
  type BackendOptions,
  backendOption,
  describeBackend,
  namesAddress,
  namesBackend,
  readBackend,
  templateLines,
  withoutAbsent,
} from "./app-backend.ts";
import type { CheckOptions } from "./apps-check.ts";
import { programName } from "./called.ts";
import { append, commandGroup, rpcCommand, withConfirmation } from "./command-words.ts";
import type { Connection, SettingsWorld } from "./connection.ts";
import { CallRefused, CommandFailure, wrongUse } from "./failures.ts";
import { wholeList } from "./lists.ts";
import { printFields, printTable, timeWords } from "./table.ts";
import { answer, type ConfirmOption, type JsonOption, type Terminal } from "./terminal.ts";

/** `apps create | update | show | list | check | delete`. */
export function addAppCommands(program: Command, terminal: Terminal, world: SettingsWorld): void {
  const apps = commandGroup(program, "apps", {
    does: "Manage the apps that teams run.",
    examples: [
      "apps create shout --backend http --url http://127.0.0.1:9000/run",
      "apps update shout --timeout 5s",
    ],
  });

  const create = rpcCommand(apps, "create", {
    does: "Create an app.",
    examples: [
      "apps create shout --backend http --url http://127.0.0.1:9000/run --header 'Authorization: Bearer abc'",
      "apps create shout --backend grpc --target 127.0.0.1:9001 --team demo",
      'apps create joke --backend http --url http://127.0.0.1:5678/webhook/joke --request \'{"topic":"$text"}\' --text-at /joke',
      "apps create orders --backend guard --team demo",
    ],
  })
    .argument("<app_id>", "small letters, digits and hyphens; it can't be changed")
    .addOption(backendOption().makeOptionMandatory());
  addFieldOptions(create, {
    teams: "(default: all)",
    name: "(default: the id)",
    timeout: "(default: 30s)",
    streamTimeout: "(default: 600s)",
    backgroundTimeout: "(default: 600s)",
  }).action((appId: string, options: AppOptions & JsonOption) =>
    createApp(terminal, appId, { ...options, world }),
  );

  const update = rpcCommand(apps, "update", {
    does: "Change what the options name; the rest of the app stays. The very next run uses it.",
    examples: [
      "apps update shout --url http://127.0.0.1:9002/run",
      "apps update shout --team demo --team acme",
      "apps update shout --all-teams",
    ],
  })
    .argument("<app_id>", "the app")
    .addOption(backendOption());
  addFieldOptions(update, {
    teams: "(in place of all before)",
    name: "",
    timeout: "",
    streamTimeout: "",
    backgroundTimeout: "",
  })
    .option("--all-teams", "every team may run it")
    .action((appId: string, options: AppOptions & JsonOption) =>
      updateApp(terminal, appId, { ...options, world }),
    );
  addBackendClearing(update);

  rpcCommand(apps, "show", { does: "Show an app.", examples: ["apps show echo"] })
    .argument("<app_id>", "the app")
    .action((appId: string, options: JsonOption) => showApp(terminal, appId, { ...options, world }));

  rpcCommand(apps, "list", { does: "List all apps.", examples: ["apps list"], table: true }).action(
    (options: JsonOption) => listApps(terminal, options),
  );

  rpcCommand(apps, "check", {
    does: "Send an app a real run, and say what came and what is missing. Exit 0: it works, 1: it does not.",
    examples: ["apps check shout", "apps check shout --text 'What is 2 + 2?' --json"],
  })
    .argument("<app_id>", "the app")
    .option("--text <text>", "what to send (default: hello, and none with --input)")
    .option("--input <file>", "a JSON object to send; - is standard input")
    .action(async (appId: string, options: CheckOptions) => {
      const { checkApp } = await import("./apps-check.ts");
      await checkApp(terminal, appId, { ...options, world });
    });

  const deletion = rpcCommand(apps, "delete", {
    does: "Delete an app. Its runs in the background are cancelled, the others end by themselves.",
    examples: ["apps delete shout", "apps delete shout --yes"],
  });
  withConfirmation(deletion)
    .argument("<app_id>", "the app")
    .action(async (appId: string, options: JsonOption & ConfirmOption) => {
      await terminal.confirm(`App ${appId} goes, and its runs in the background are cancelled.`, options);
      const message = await (await terminal.server()).apps.deleteApp({ appId });
      await answer(terminal, options, message, () => terminal.print(`App ${appId} is deleted.`));
    });
}

function addFieldOptions(
  command: Command,
  words: {
    readonly teams: string;
    readonly name: string;
    readonly timeout: string;
    readonly streamTimeout: string;
    readonly backgroundTimeout: string;
  },
): Command {
  return addBackendOptions(command)
    .option(
      "--timeout <time>",
      `how long a run may take, like 30s or 500ms, at most 600s ${words.timeout}`.trim(),
    )
    .option(
      "--stream-timeout <time>",
      `how long a stream may take, at most 3600s ${words.streamTimeout}`.trim(),
    )
    .option(
      "--background-timeout <time>",
      `how long a run in the background may take, at most 3600s ${words.backgroundTimeout}`.trim(),
    )
    .option("--team <team_id>", `a team that may run it; repeat it for more ${words.teams}`, append)
    .option("--name <name>", `the display name ${words.name}`.trim());
}

/** The options of `apps create` and `apps update`. What is absent was not given. */
interface AppOptions extends BackendOptions {
  readonly timeout?: string;
  readonly streamTimeout?: string;
  readonly backgroundTimeout?: string;
  readonly team?: readonly string[];
  readonly allTeams?: true;
  readonly name?: string;
}

interface WithWorld {
  readonly world: SettingsWorld;
}

async function createApp(
  terminal: Terminal,
  appId: string,
  { world, ...options }: AppOptions & JsonOption & WithWorld,
): Promise<void> {
  const app = {
    id: appId,
    displayName: options.name ?? "",
    backend: readBackend(options, world),
    teamIds: [...(options.team ?? [])],
    ...readTimeouts(options),
  };
  const { apps } = await terminal.server();
  const message = await apps.createApp({ app });
  await answer(terminal, options, message, () =>
    terminal.print(`App ${appId} is created, for ${teamWords(message.app)}.`),
  );
  await warnUnlessReached(terminal, apps, appId);
}

async function updateApp(
  terminal: Terminal,
  appId: string,
  { world, ...options }: AppOptions & JsonOption & WithWorld,
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
    throw wrongUse(`Say what to change. \`${programName} apps update --help\` lists the options.`);
  }
  const { apps } = await terminal.server();
  if (namesIt) change.backend = readBackend(options, world, (await apps.getApp({ appId })).app?.backend);
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
  if (namesAddress(options)) await warnUnlessReached(terminal, apps, appId);
}

async function warnUnlessReached(terminal: Terminal, apps: Connection["apps"], appId: string): Promise<void> {
  const { warnUnlessReached: warn } = await import("./apps-check.ts");
  await warn(terminal, apps, appId);
}

function readTimeouts({ timeout, streamTimeout, backgroundTimeout }: AppOptions): AppJson {
  return withoutAbsent({
    timeout: readTimeout(timeout, "--timeout"),
    streamTimeout: readTimeout(streamTimeout, "--stream-timeout"),
    backgroundTimeout: readTimeout(backgroundTimeout, "--background-timeout"),
  });
}

/** A Duration in JSON, from the value of this option; undefined where it was not given. */
function readTimeout(text: string | undefined, option: `--${string}timeout`): string | undefined {
  if (text === undefined) return undefined;
  const [, digits, unit = ""] = /^(\d{1,6}(?:\.\d{1,3})?)(ms|s|m|h)$/.exec(text) ?? [];
  if (digits === undefined) {
    throw wrongUse(`${option} must be a number with ms, s, m or h, like 500ms, 30s or 10m.`);
  }
  return `${Math.round(Number(digits) * (unitMs[unit] ?? 0)) / 1_000}s`;
}

const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

function isAboutHeaders(error: unknown): boolean {
  return error instanceof CallRefused && error.violations.some(({ field }) => /\bheaders\[/.test(field));
}

function headersOfOldServer(appId: string): string {
  return `The headers of \`${appId}\` may hold credentials, so they stay with its old server. Give them again with --header, or send none with --no-headers.`;
}

function teamWords({ teamIds = [] }: AppJson = {}, before = ""): string {
  return `${before} ${teamIds.join(", ") || "all teams"}`.trim();
}

async function listApps(terminal: Terminal, options: JsonOption): Promise<void> {
  const { apps: client } = await terminal.server();
  const message = await wholeList("apps", client.listApps);
  const columns = [
    { head: "ID" },
    { head: "NAME", least: 8 },
    { head: "BACKEND", least: 16 },
    { head: "TIMEOUT", spare: 2 },
    { head: "TEAMS", spare: 1 },
  ];
  await answer(terminal, options, message, () =>
    printTable(
      terminal,
      columns,
      message.apps.map((app) => ({ cells: cellsOf(app) })),
    ),
  );
}

async function showApp(
  terminal: Terminal,
  appId: string,
  { world, ...options }: JsonOption & WithWorld,
): Promise<void> {
  const { apps } = await terminal.server();
  const message = await apps.getApp({ appId });
  const guard = message.app?.backend?.guard && (await guardAddress(appId, world));
  await answer(terminal, options, message, () => {
    const app = message.app ?? {};
    const headers = app.backend?.http?.headers ?? [];
    const lines: [string, string][] = [
      ["id", app.id ?? ""],
      ["name", app.displayName ?? ""],
      ["backend", describeBackend(app.backend)],
      ...headers.map(({ name, value }): [string, string] => ["header", `${name}: ${value}`]),
      ...templateLines(app.backend?.http),
      ...(guard === undefined ? timesOf(app) : [["guard", guard] as [string, string]]),
      ["teams", app.teamIds?.join(", ") || "all"],
      ["created", timeWords(app.createTime ?? "-")],
    ];
    printFields(terminal, lines);
  });
}

function timesOf({
  timeout = "-",
  streamTimeout = "-",
  backgroundTimeout = "-",
}: AppJson): [string, string][] {
  return [
    ["timeout", shortTime(timeout)],
    ["stream timeout", shortTime(streamTimeout)],
    ["background timeout", shortTime(backgroundTimeout)],
  ];
}

/** Where a proxy asks. The path alone, if the settings do not say where the public listener is. */
async function guardAddress(appId: string, world: SettingsWorld): Promise<string> {
  const { readUrl } = await import("./public-api.ts");
  const path = `/api/apps/${appId}/guard`;
  try {
    return readUrl(world) + path;
  } catch (thrown) {
    if (thrown instanceof CommandFailure) return path;
    throw thrown;
  }
}

function cellsOf({ id = "", displayName = "", backend, timeout = "-", teamIds = [] }: AppJson): string[] {
  return [id, displayName, describeBackend(backend), shortTime(timeout), teamIds.join(",") || "all"];
}

/** JSON writes fractions in groups of three digits: 1.500s. */
function shortTime(duration: string): string {
  return duration.replace(/^(\d+\.\d*?)0+s$/, "$1s");
}
