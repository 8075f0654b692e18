import { type Command, Option } from "commander";
import {
  CreateTeamResponseSchema,
  ListTeamsResponseSchema,
  UpdateTeamResponseSchema,
} from "#gen/keyrun/v1/team_service_pb.ts";
import { type PlanName, planNames } from "../settings/config.ts";
import { planName, planNumber } from "../teams/plan-message.ts";
import { wrongUse } from "./command-failure.ts";
import { allPages, pageSize } from "./pages.ts";
import { renderTable, renderTime } from "./table.ts";
import { answer, type JsonOption, rpcCommand, type Terminal } from "./terminal.ts";

/** `teams create | list | set-plan`. */
export function addTeamCommands(program: Command, terminal: Terminal): void {
  const teams = program.command("teams").description("Manage teams and their plans.");

  rpcCommand(teams, "create <team_id>", "Create a team.")
    .option("--name <name>", "the display name (default: the id)")
    .addOption(
      new Option("--plan <plan>", "the plan, which sets the limit").choices(planNames).default("free"),
    )
    .action(async (teamId: string, options: CreateOptions) => {
      const team = { id: teamId, displayName: options.name ?? "", plan: planNumber(options.plan) };
      const message = await terminal.server().teams.createTeam({ team });
      answer(terminal, options, { desc: CreateTeamResponseSchema, message }, () =>
        terminal.print(`Team ${teamId} is created, on the plan ${options.plan}.`),
      );
    });

  rpcCommand(teams, "list", "List all teams.").action((options: JsonOption) => listTeams(terminal, options));

  rpcCommand(teams, "set-plan <team_id> <plan>", `Put a team on a plan: ${planNames.join(", ")}.`).action(
    async (teamId: string, wanted: string, options: JsonOption) => {
      const plan = planNames.find((name) => name === wanted);
      if (plan === undefined) throw wrongUse(`The plan must be one of ${planNames.join(", ")}.`);
      const message = await terminal.server().teams.updateTeam({
        team: { id: teamId, plan: planNumber(plan) },
        updateMask: { paths: ["plan"] },
      });
      answer(terminal, options, { desc: UpdateTeamResponseSchema, message }, () =>
        terminal.print(`Team ${teamId} is on the plan ${plan} now.`),
      );
    },
  );
}

interface CreateOptions extends JsonOption {
  name?: string;
  plan: PlanName;
}

async function listTeams(terminal: Terminal, options: JsonOption): Promise<void> {
  const { teams: client } = terminal.server();
  const pages = await allPages((pageToken) => client.listTeams({ pageSize, pageToken }));
  const teams = pages.flatMap((page) => page.teams);
  const message = { ...pages[0], teams, nextPageToken: "" };
  answer(terminal, options, { desc: ListTeamsResponseSchema, message }, () => {
    const rows = teams.map(({ id, displayName, plan, createTime }) => [
      id,
      displayName,
      planName(plan) ?? "-",
      renderTime(createTime),
    ]);
    for (const line of renderTable(["ID", "NAME", "PLAN", "CREATED"], rows)) terminal.print(line);
  });
}
