/** `apps …`: the commands, and how their options become a backend. */

import { type Command, Option } from "commander";
import type { AppBackendJson, AppJson } from "#gen/keyrun/v1/app_pb.ts";
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
  }).action((appId: string, options: AppOptions & JsonOption) => createApp(terminal, appId, options));

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
    .option("--no-headers", "http: send no headers of its own any more")
    .option("--no-tls", "grpc: use no TLS")
    .option("--all-teams", "every team may run it")
    .action((appId: string, options: AppOptions & JsonOption) => updateApp(terminal, appId, options));

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
    .option("--text <text>", "what to send", "hello")
    .action(async (appId: string, options: JsonOption & { readonly text: string }) => {
      const { checkApp } = await import("./apps-check.ts");
      await checkApp(terminal, appId, options);
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

const kinds = ["echo", "http", "grpc", "guard"] as const;
type Kind = (typeof kinds)[number];

function backendOption(): Option {
  return new Option(
    "--backend <kind>",
    "where a run is sent; guard: a service that a proxy protects",
  ).choices(kinds);
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
  return command
    .option("--url <url>", "http: where to POST")
    .option("--header <header>", "http: a header to send, 'Name: value'; repeat it for more", append)
    .option("--target <host:port>", "grpc: the server")
    .option("--tls", "grpc: use TLS")
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
interface AppOptions {
  readonly backend?: Kind;
  readonly url?: string;
  readonly header?: readonly string[];
  /** False: --no-headers. */
  readonly headers?: false;
  readonly target?: string;
  readonly tls?: boolean;
  readonly timeout?: string;
  readonly streamTimeout?: string;
  readonly backgroundTimeout?: string;
  readonly team?: readonly string[];
  readonly allTeams?: true;
  readonly name?: string;
}

async function createApp(terminal: Terminal, appId: string, options: AppOptions & JsonOption): Promise<void> {
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
  await warnUnlessReached(terminal, apps, appId);
}

async function updateApp(terminal: Terminal, appId: string, options: AppOptions & JsonOption): Promise<void> {
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
  { world, ...options }: JsonOption & { readonly world: SettingsWorld },
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

function describeBackend(backend: AppBackendJson = {}): string {
  const { http, grpc } = backend;
  if (grpc !== undefined) return `grpc ${grpc.target}${grpc.tls ? " (TLS)" : ""}`;
  return http === undefined ? kindOf(backend) : `http ${http.url}`;
}

/** The name of the backend's kind. */
function kindOf(backend: AppBackendJson): Kind {
  return kinds.find((kind) => backend[kind] !== undefined) ?? "echo";
}

/** Whether an option says where the app's server is. */
function namesAddress({ backend, url, target, tls }: AppOptions): boolean {
  return [backend, url, target, tls].some((each) => each !== undefined);
}

/** Whether an option says something about the backend. */
function namesBackend(options: AppOptions): boolean {
  return namesAddress(options) || options.header !== undefined || options.headers === false;
}

/**
 * The backend that the options describe. What they leave out stays as in `before`, if that is of
 * the same kind. Throws for options that contradict each other.
 */
function readBackend(options: AppOptions, before: AppBackendJson = {}): AppBackendJson {
  const { url, header, headers, target, tls } = options;
  const kind = options.backend ?? kindOf(before);
  if (kind !== "http" && (url !== undefined || header !== undefined || headers === false)) {
    throw wrongUse("--url and --header are for --backend http.");
  }
  if (kind !== "grpc" && (target !== undefined || tls !== undefined)) {
    throw wrongUse("--target and --tls are for --backend grpc.");
  }
  if (header !== undefined && headers === false) throw wrongUse("Give --header or --no-headers, not both.");
  if (kind === "http") {
    // Headers may hold credentials, so those of another server don't go along.
    const kept = url === undefined ? (before.http?.headers ?? []) : [];
    const all = { url, headers: headers === false ? [] : header && merged(kept, header.map(readHeader)) };
    const http = { ...before.http, ...withoutAbsent(all) };
    if (http.url === undefined) throw wrongUse("--backend http needs --url, where to POST.");
    return { http };
  }
  if (kind === "grpc") {
    const grpc = { ...before.grpc, ...withoutAbsent({ target, tls }) };
    if (grpc.target === undefined) throw wrongUse("--backend grpc needs --target, the server's HOST:PORT.");
    return { grpc };
  }
  return kind === "guard" ? { guard: {} } : { echo: {} };
}

/** A malformed header is never repeated in the error: it is most often a credential. */
function readHeader(text: string): { name: string; value: string } {
  const colon = text.indexOf(":");
  if (colon < 1) throw wrongUse("--header must be like 'Name: value'.");
  return { name: text.slice(0, colon).trim(), value: text.slice(colon + 1).trim() };
}

/** The headers with those of the same name replaced. */
function merged<Header extends { name?: string }>(
  before: readonly Header[],
  given: readonly Header[],
): Header[] {
  const names = new Set(given.map(({ name = "" }) => name.toLowerCase()));
  return [...before.filter(({ name = "" }) => !names.has(name.toLowerCase())), ...given];
}

type Given<Fields> = { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> };

function withoutAbsent<Fields extends object>(fields: Fields): Given<Fields> {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as Given<Fields>;
}
