import { type Command, Option } from "commander";
import { createApp, updateApp } from "./app-changes.ts";
import { listApps, showApp } from "./app-lists.ts";
import type { AppOptions } from "./app-options.ts";
import { append, commandGroup, rpcCommand } from "./command-words.ts";
import { answer, type JsonOption, type Terminal } from "./terminal.ts";

/** `apps create | update | show | list | delete`. */
export function addAppCommands(program: Command, terminal: Terminal): void {
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
    ],
  })
    .argument("<app_id>", "small letters, digits and hyphens; it can't be changed")
    .addOption(backendOption().makeOptionMandatory());
  addFieldOptions(create, {
    teams: "(default: all)",
    name: "(default: the id)",
    timeout: "(default: 30s, the most)",
    streamTimeout: "(default: 600s)",
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
  })
    .option("--no-headers", "http: send no headers of its own any more")
    .option("--no-tls", "grpc: use no TLS")
    .option("--all-teams", "every team may run it")
    .action((appId: string, options: AppOptions & JsonOption) => updateApp(terminal, appId, options));

  rpcCommand(apps, "show", { does: "Show an app.", examples: ["apps show echo"] })
    .argument("<app_id>", "the app")
    .action((appId: string, options: JsonOption) => showApp(terminal, appId, options));

  rpcCommand(apps, "list", { does: "List all apps.", examples: ["apps list"] }).action(
    (options: JsonOption) => listApps(terminal, options),
  );

  rpcCommand(apps, "delete", {
    does: "Delete an app; running ones end by themselves.",
    examples: ["apps delete shout"],
  })
    .argument("<app_id>", "the app")
    .action(async (appId: string, options: JsonOption) => {
      const message = await (await terminal.server()).apps.deleteApp({ appId });
      await answer(terminal, options, message, () => terminal.print(`App ${appId} is deleted.`));
    });
}

function backendOption(): Option {
  return new Option("--backend <kind>", "where a run is sent").choices(["echo", "http", "grpc"]);
}

function addFieldOptions(
  command: Command,
  words: {
    readonly teams: string;
    readonly name: string;
    readonly timeout: string;
    readonly streamTimeout: string;
  },
): Command {
  return command
    .option("--url <url>", "http: where to POST")
    .option("--header <header>", "http: a header to send, 'Name: value'; repeat it for more", append)
    .option("--target <host:port>", "grpc: the server")
    .option("--tls", "grpc: use TLS")
    .option("--timeout <time>", `how long a run may take, like 30s or 500ms ${words.timeout}`.trim())
    .option(
      "--stream-timeout <time>",
      `how long a stream may take, at most 3600s ${words.streamTimeout}`.trim(),
    )
    .option("--team <team_id>", `a team that may run it; repeat it for more ${words.teams}`, append)
    .option("--name <name>", `the display name ${words.name}`.trim());
}
