import type { AppBackendJson, AppJson } from "#gen/keyrun/v1/app_pb.ts";
import { kindOf } from "./app-options.ts";
import { allPages, pageSize } from "./pages.ts";
import { printable } from "./printable.ts";
import { printTable, timeWords } from "./table.ts";
import { answer, type JsonOption, type Terminal } from "./terminal.ts";

export async function listApps(terminal: Terminal, options: JsonOption): Promise<void> {
  const { apps: client } = await terminal.server();
  const pages = await allPages((pageToken) => client.listApps({ pageSize, pageToken }));
  const apps = pages.flatMap((page) => page.apps ?? []);
  const message = { ...pages[0], apps, nextPageToken: "" };
  const columns = [
    { head: "ID" },
    { head: "NAME", least: 8 },
    { head: "BACKEND", least: 16 },
    { head: "TIMEOUT" },
    { head: "TEAMS", least: 8 },
  ];
  await answer(terminal, options, message, () =>
    printTable(
      terminal,
      columns,
      apps.map((app) => ({ cells: cellsOf(app) })),
    ),
  );
}

export async function showApp(terminal: Terminal, appId: string, options: JsonOption): Promise<void> {
  const { apps } = await terminal.server();
  const message = await apps.getApp({ appId });
  await answer(terminal, options, message, () => {
    const app = message.app ?? {};
    const headers = app.backend?.http?.headers ?? [];
    const lines: [string, string][] = [
      ["id", app.id ?? ""],
      ["name", app.displayName ?? ""],
      ["backend", describeBackend(app.backend)],
      ...headers.map(({ name, value }): [string, string] => ["header", `${name}: ${value}`]),
      ["timeout", shortTime(app.timeout ?? "-")],
      ["stream timeout", shortTime(app.streamTimeout ?? "-")],
      ["teams", app.teamIds?.join(", ") || "all"],
      ["created", timeWords(app.createTime ?? "-")],
    ];
    for (const [what, text] of lines) {
      terminal.print(`${terminal.style.strong(what.padEnd("stream timeout".length))}  ${printable(text)}`);
    }
  });
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
