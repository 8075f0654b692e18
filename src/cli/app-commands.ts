import type { MessageInitShape } from "@bufbuild/protobuf";
import { type Duration, durationFromMs, durationMs } from "@bufbuild/protobuf/wkt";
import { type Command, Option } from "commander";
import type { App, AppBackend, AppBackendSchema } from "#gen/keyrun/v1/app_pb.ts";
import {
  CreateAppResponseSchema,
  DeleteAppResponseSchema,
  ListAppsResponseSchema,
} from "#gen/keyrun/v1/app_service_pb.ts";
import { wrongUse } from "./command-failure.ts";
import { allPages, pageSize } from "./pages.ts";
import { renderTable } from "./table.ts";
import { answer, type JsonOption, rpcCommand, type Terminal } from "./terminal.ts";

interface CreateOptions extends JsonOption {
  backend: "echo" | "http" | "grpc";
  url?: string;
  header: string[];
  target?: string;
  tls?: boolean;
  timeout?: string;
  team: string[];
  name?: string;
}

/** `apps create | list | delete`. */
export function addAppCommands(program: Command, terminal: Terminal): void {
  const apps = program.command("apps").description("Manage the apps that teams run.");

  rpcCommand(apps, "create <app_id>", "Create an app.")
    .addOption(
      new Option("--backend <kind>", "where a run is sent")
        .choices(["echo", "http", "grpc"])
        .makeOptionMandatory(),
    )
    .option("--url <url>", "http: where to POST")
    .option("--header <header>", "http: a header to send, 'Name: value'; repeat it for more", append, [])
    .option("--target <host:port>", "grpc: the server")
    .option("--tls", "grpc: use TLS")
    .option("--timeout <time>", "how long a run may take, like 30s or 500ms (default: 30s, the most)")
    .option("--team <team_id>", "a team that may run it; repeat it for more (default: all)", append, [])
    .option("--name <name>", "the display name (default: the id)")
    .action(async (appId: string, options: CreateOptions) => {
      const app = {
        id: appId,
        displayName: options.name ?? "",
        backend: readBackend(options),
        teamIds: options.team,
        ...(options.timeout !== undefined && { timeout: readDuration(options.timeout) }),
      };
      const message = await terminal.server().apps.createApp({ app });
      answer(terminal, options, { desc: CreateAppResponseSchema, message }, () =>
        terminal.print(`App ${appId} is created, for ${options.team.join(", ") || "all teams"}.`),
      );
    });

  rpcCommand(apps, "list", "List all apps.").action((options: JsonOption) => listApps(terminal, options));

  rpcCommand(apps, "delete <app_id>", "Delete an app; running ones end by themselves.").action(
    async (appId: string, options: JsonOption) => {
      const message = await terminal.server().apps.deleteApp({ appId });
      answer(terminal, options, { desc: DeleteAppResponseSchema, message }, () =>
        terminal.print(`App ${appId} is deleted.`),
      );
    },
  );
}

function append(value: string, before: string[]): string[] {
  return [...before, value];
}

function readBackend(options: CreateOptions): MessageInitShape<typeof AppBackendSchema> {
  const { backend, url, header, target, tls } = options;
  if (backend !== "http" && (url !== undefined || header.length > 0)) {
    throw wrongUse("--url and --header are for --backend http.");
  }
  if (backend !== "grpc" && (target !== undefined || tls)) {
    throw wrongUse("--target and --tls are for --backend grpc.");
  }
  if (backend === "http") {
    if (url === undefined) throw wrongUse("--backend http needs --url, where to POST.");
    return { kind: { case: "http", value: { url, headers: header.map(readHeader) } } };
  }
  if (backend === "grpc") {
    if (target === undefined) throw wrongUse("--backend grpc needs --target, the server's HOST:PORT.");
    return { kind: { case: "grpc", value: { target, tls: tls ?? false } } };
  }
  return { kind: { case: "echo", value: {} } };
}

/** A malformed header is never repeated in the error: it is most often a credential. */
function readHeader(text: string): { name: string; value: string } {
  const colon = text.indexOf(":");
  if (colon < 1) throw wrongUse("--header must be like 'Name: value'.");
  return { name: text.slice(0, colon).trim(), value: text.slice(colon + 1).trim() };
}

function readDuration(text: string): Duration {
  const parts = /^(\d{1,6}(?:\.\d{1,3})?)(ms|s)$/.exec(text);
  if (parts === null) throw wrongUse("--timeout must be a number with s or ms, like 30s or 500ms.");
  return durationFromMs(Math.round(Number(parts[1]) * (parts[2] === "s" ? 1000 : 1)));
}

async function listApps(terminal: Terminal, options: JsonOption): Promise<void> {
  const { apps: client } = terminal.server();
  const pages = await allPages((pageToken) => client.listApps({ pageSize, pageToken }));
  const apps = pages.flatMap((page) => page.apps);
  const message = { ...pages[0], apps, nextPageToken: "" };
  answer(terminal, options, { desc: ListAppsResponseSchema, message }, () => {
    const head = ["ID", "NAME", "BACKEND", "TIMEOUT", "TEAMS"];
    for (const line of renderTable(head, apps.map(cellsOf))) terminal.print(line);
  });
}

function cellsOf({ id, displayName, backend, timeout, teamIds }: App): string[] {
  const seconds = timeout === undefined ? "-" : `${durationMs(timeout) / 1000}s`;
  return [id, displayName, describeBackend(backend), seconds, teamIds.join(",") || "all"];
}

function describeBackend(backend: AppBackend | undefined): string {
  const kind = backend?.kind;
  if (kind?.case === "http") return `http ${kind.value.url}`;
  if (kind?.case === "grpc") return `grpc ${kind.value.target}${kind.value.tls ? " (TLS)" : ""}`;
  return kind?.case ?? "-";
}
