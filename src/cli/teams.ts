/** `teams …`: teams and their plans. */

import { Argument, type Command, Option } from "commander";
import type { TeamJson } from "#gen/keyrun/v1/team_pb.ts";
import { type PlanName, planNames } from "../settings/config.ts";
import { commandGroup, planMessage, planName, rpcCommand, withConfirmation } from "./command-words.ts";
import { wholeList } from "./lists.ts";
import { quotaWords, readRequests } from "./quota-words.ts";
import { type Column, printTable, timeCell } from "./table.ts";
import { answer, type ConfirmOption, type JsonOption, type Terminal } from "./terminal.ts";

/** `teams create | list | update | set-plan | grant | delete`. */
export function addTeamCommands(program: Command, terminal: Terminal): void {
  const teams = commandGroup(program, "teams", {
    does: "Manage teams and their plans.",
    examples: ["teams create acme --plan pro", "teams list"],
  });

  rpcCommand(teams, "create", {
    does: "Create a team.",
    examples: ["teams create acme", 'teams create acme --name "Acme Ltd" --plan pro'],
  })
    .argument("<team_id>", "small letters, digits and hyphens; it can't be changed")
    .option("--name <name>", "the display name (default: the id)")
    .addOption(
      new Option("--plan <plan>", "the plan, which sets the limit").choices(planNames).default("free"),
    )
    .action((teamId: string, options: CreateOptions) => createTeam(terminal, teamId, options));

  rpcCommand(teams, "list", { does: "List all teams.", examples: ["teams list"], table: true }).action(
    (options: JsonOption) => listTeams(terminal, options),
  );

  rpcCommand(teams, "update", {
    does: "Change a team's display name.",
    examples: ['teams update acme --name "Acme Ltd"'],
  })
    .argument("<team_id>", "the team")
    .requiredOption("--name <name>", "the display name, which people see; keys and apps keep the id")
    .action((teamId: string, options: UpdateOptions) => updateTeam(terminal, teamId, options));

  rpcCommand(teams, "set-plan", {
    does: "Put a team on a plan, from its very next request.",
    examples: ["teams set-plan acme enterprise"],
  })
    .argument("<team_id>", "the team")
    .addArgument(new Argument("<plan>", "the plan").choices(planNames))
    .action((teamId: string, plan: PlanName, options: JsonOption) =>
      setPlan(terminal, { teamId, plan }, options),
    );

  rpcCommand(teams, "grant", {
    does: "Raise a team's quota for this day or month alone.",
    examples: [
      "teams grant acme 5000",
      "teams grant acme 5000 --request-id 8d5f3b1e-6c0a-4b7e-9d2f-1a3c5e7f9b0d",
    ],
  })
    .argument("<team_id>", "the team")
    .argument("<requests>", "how many more requests")
    .option("--request-id <uuid>", "grants once, however often the command is repeated with it")
    .action(async (teamId: string, text: string, options: JsonOption & { requestId?: string }) => {
      const { requestId = "" } = options;
      const requests = readRequests(text, "<requests>");
      const message = await (await terminal.server()).teams.grantRequests({ teamId, requests, requestId });
      await answer(terminal, options, message, () =>
        terminal.print(`The quota of team ${teamId} is ${quotaWords(message.quota ?? {})}.`),
      );
    });

  const deletion = rpcCommand(teams, "delete", {
    does: "Delete a team for ever. A team with active keys, or that an app is limited to, stays.",
    examples: ["teams delete acme", "teams delete acme --yes"],
  });
  withConfirmation(deletion)
    .argument("<team_id>", "the team")
    .action(async (teamId: string, options: JsonOption & ConfirmOption) => {
      await terminal.confirm(`Team ${teamId} goes for ever, with its keys, members and usage.`, options);
      const message = await (await terminal.server()).teams.deleteTeam({ teamId });
      await answer(terminal, options, message, () => terminal.print(`Team ${teamId} is deleted.`));
    });
}

interface CreateOptions extends JsonOption {
  name?: string;
  plan: PlanName;
}

async function createTeam(terminal: Terminal, teamId: string, options: CreateOptions): Promise<void> {
  const { teams } = await terminal.server();
  const team = { id: teamId, displayName: options.name ?? "", plan: planMessage(options.plan) };
  const message = await teams.createTeam({ team });
  await answer(terminal, options, message, () =>
    terminal.print(`Team ${teamId} is created, on the plan ${options.plan}.`),
  );
}

interface UpdateOptions extends JsonOption {
  name: string;
}

async function updateTeam(terminal: Terminal, teamId: string, options: UpdateOptions): Promise<void> {
  const { teams } = await terminal.server();
  const team = { id: teamId, displayName: options.name };
  const message = await teams.updateTeam({ team, updateMask: "displayName" });
  await answer(terminal, options, message, () =>
    terminal.print(`Team ${teamId} is called ${message.team?.displayName} now.`),
  );
}

async function setPlan(
  terminal: Terminal,
  { teamId, plan }: { readonly teamId: string; readonly plan: PlanName },
  options: JsonOption,
): Promise<void> {
  const { teams } = await terminal.server();
  const team = { id: teamId, plan: planMessage(plan) };
  const message = await teams.updateTeam({ team, updateMask: "plan" });
  await answer(terminal, options, message, () =>
    terminal.print(`Team ${teamId} is on the plan ${plan} now.`),
  );
}

async function listTeams(terminal: Terminal, options: JsonOption): Promise<void> {
  const { teams: client } = await terminal.server();
  const message = await wholeList("teams", client.listTeams);
  const { teams } = message;
  const columns: Column[] = [
    { head: "ID" },
    { head: "NAME", least: 12 },
    { head: "PLAN" },
    { head: "CREATED", spare: 1 },
  ];
  // A deletion that was interrupted, which a repeated one ends.
  if (teams.some(isEnding)) columns.push({ head: "STATE" });
  await answer(terminal, options, message, () =>
    printTable(
      terminal,
      columns,
      teams.map((team) => ({
        cells: [
          team.id ?? "",
          team.displayName ?? "",
          planName(team.plan),
          timeCell(team.createTime),
          isEnding(team) ? "being deleted" : "",
        ],
      })),
    ),
  );
}

function isEnding({ state }: TeamJson): boolean {
  return state === "TEAM_STATE_ENDING";
}
