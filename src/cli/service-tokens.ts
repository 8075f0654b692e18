/** `service-tokens …`: the tokens with which internal services call Keyrun. */

import { type Command, Option } from "commander";
import type { ServiceRoleJson, ServiceTokenJson } from "#gen/keyrun/v1/service_token_pb.ts";
import { programName } from "./called.ts";
import { append, commandGroup, rpcCommand } from "./command-words.ts";
import { CallRefused, CommandFailure, wrongUse } from "./failures.ts";
import { wholeList } from "./lists.ts";
import { type Column, printTable, type Row, timeCell, timeWords } from "./table.ts";
import { answer, type JsonOption, type Terminal } from "./terminal.ts";

/** `service-tokens create | list | revoke`. */
export function addServiceTokenCommands(program: Command, terminal: Terminal): void {
  const tokens = commandGroup(program, "service-tokens", {
    does: "Manage the tokens with which internal services call Keyrun.",
    examples: ["service-tokens create billing --role manage --team demo", "service-tokens list"],
  });

  rpcCommand(tokens, "create", {
    does: "Create a token, and print it alone on standard output: it is shown only once.",
    examples: [
      "service-tokens create gateway --role verify",
      "service-tokens create billing --role manage --team demo --team acme",
    ],
  })
    .argument("<name>", "the service: small letters, digits and hyphens")
    .addOption(
      new Option("--role <role>", "what it may do")
        .choices(["verify", "manage", "metrics", "admin"])
        .makeOptionMandatory(),
    )
    .option("--team <team_id>", "a team that it may manage, for the role manage; may be repeated", append)
    .action((name: string, options: CreateOptions) => createServiceToken(terminal, name, options));

  rpcCommand(tokens, "list", {
    does: "List the tokens, newest first.",
    examples: ["service-tokens list --revoked"],
    table: true,
  })
    .option("--revoked", "show revoked tokens too")
    .action((options: ListOptions) => listServiceTokens(terminal, options));

  rpcCommand(tokens, "revoke", {
    does: "Revoke a token, at once and for ever.",
    examples: ["service-tokens revoke billing", "service-tokens revoke 7k3f0m9x2a4c6e8g1j5n7p9q"],
  })
    .argument("<token>", "the service's name, or the token's id")
    .action((token: string, options: JsonOption) => revokeServiceToken(terminal, token, options));
}

interface CreateOptions extends JsonOption {
  readonly role: "verify" | "manage" | "metrics" | "admin";
  readonly team?: readonly string[];
}

async function createServiceToken(terminal: Terminal, name: string, options: CreateOptions): Promise<void> {
  const { role, team = [] } = options;
  if (role === "manage" && team.length === 0) {
    throw wrongUse("--role manage needs --team, the team that the service may manage. It may be repeated.");
  }
  if (role !== "manage" && team.length > 0) throw wrongUse("--team is for --role manage.");
  const { serviceTokens } = await terminal.server();
  const request = { name, role: roleNumbers[role], teamIds: [...team] };
  const message = await serviceTokens.createServiceToken(request);
  await answer(terminal, options, message, () => terminal.print(message.value ?? ""));
  terminal.note(`Token ${message.serviceToken?.id} of the service ${name} is created, for ${may(message)}.`);
  terminal.note("It is shown only once: store it where you keep secrets.");
}

const roleNumbers: Readonly<Record<CreateOptions["role"], ServiceRoleJson>> = {
  verify: "SERVICE_ROLE_VERIFY",
  manage: "SERVICE_ROLE_MANAGE",
  metrics: "SERVICE_ROLE_METRICS",
  admin: "SERVICE_ROLE_ADMIN",
};

function may({ serviceToken = {} }: { readonly serviceToken?: ServiceTokenJson }): string {
  const { teamIds = [] } = serviceToken;
  const teams = teamIds.length === 0 ? "" : ` of ${teamIds.join(", ")}`;
  return `the role ${roleWord(serviceToken)}${teams}`;
}

function roleWord({ role = "SERVICE_ROLE_UNSPECIFIED" }: ServiceTokenJson): string {
  return role.replace("SERVICE_ROLE_", "").toLowerCase();
}

interface ListOptions extends JsonOption {
  readonly revoked?: boolean;
}

async function listServiceTokens(terminal: Terminal, options: ListOptions): Promise<void> {
  const message = await allTokens(terminal, options.revoked ?? false);
  await answer(terminal, options, message, () =>
    printTable(terminal, columnsFor(options), message.serviceTokens.map(rowOf)),
  );
}

async function allTokens(terminal: Terminal, showRevoked: boolean) {
  const { serviceTokens: client } = await terminal.server();
  return wholeList("serviceTokens", (page) => client.listServiceTokens({ showRevoked, ...page }));
}

function columnsFor({ revoked }: ListOptions): Column[] {
  return [
    { head: "NAME", least: 10 },
    { head: "ROLE" },
    { head: "TEAMS", spare: 6 },
    { head: "TOKEN", spare: 1 },
    { head: "ID", spare: 5 },
    { head: "CREATED", spare: 4 },
    { head: "BY", spare: 2 },
    { head: "LAST USED" },
    ...(revoked ? [{ head: "REVOKED" }, { head: "REVOKED BY", spare: 3 }] : []),
  ];
}

function rowOf(token: ServiceTokenJson): Row {
  const cells = [
    token.name ?? "",
    roleWord(token),
    (token.teamIds ?? []).join(", ") || "-",
    token.redactedValue || "-",
    token.id ?? "",
    token.createTime === undefined ? "-" : timeCell(token.createTime),
    token.createdBy || "-",
    isOfSettings(token) ? "-" : timeCell(token.lastUseTime, "never"),
    token.revokeTime === undefined ? "" : timeCell(token.revokeTime),
    token.revokedBy ?? "",
  ];
  return { cells, faint: token.revokeTime !== undefined };
}

/** Nothing is kept of its uses. */
function isOfSettings({ createTime }: ServiceTokenJson): boolean {
  return createTime === undefined;
}

/** Revokes the accepted token of the service with this name; else the token with this id. */
async function revokeServiceToken(terminal: Terminal, named: string, options: JsonOption): Promise<void> {
  const text = named.trim();
  // A whole token may have been pasted, so what is no name and no id is not repeated.
  if (!/^[a-z0-9][a-z0-9-]*$/.test(text)) {
    throw wrongUse(
      `This names no service token. Give the service's name or the token's id: \`${programName} service-tokens list\` shows them.`,
    );
  }
  const { serviceTokens } = await terminal.server();
  const { serviceTokens: accepted } = await allTokens(terminal, false);
  const serviceTokenId = accepted.find(({ name }) => name === text)?.id ?? text;
  const message = await serviceTokens.revokeServiceToken({ serviceTokenId }).catch((error: unknown) => {
    const isUnknown = error instanceof CallRefused && error.reason === "SERVICE_TOKEN_NOT_FOUND";
    throw isUnknown ? unknownToken(text) : error;
  });
  const { id, name, revokeTime = "" } = message.serviceToken ?? {};
  await answer(terminal, options, message, () =>
    terminal.print(`Token ${id} of the service ${name} was revoked at ${timeWords(revokeTime)}.`),
  );
}

function unknownToken(text: string): CommandFailure {
  return new CommandFailure(
    `There is no accepted service token \`${text}\`. List them with \`${programName} service-tokens list --revoked\`.`,
  );
}
