import type { Command } from "commander";
import { type Key, KeyState } from "#gen/keyrun/v1/key_pb.ts";
import {
  CreateKeyResponseSchema,
  ListKeysResponseSchema,
  RevokeKeyResponseSchema,
  VerifyKeyResponse_Verdict,
  VerifyKeyResponse_VerdictSchema,
  VerifyKeyResponseSchema,
} from "#gen/keyrun/v1/key_service_pb.ts";
import { planName } from "../teams/plan-message.ts";
import { CommandFailure } from "./command-failure.ts";
import { allPages, pageSize } from "./pages.ts";
import { renderTable, renderTime } from "./table.ts";
import { answer, type JsonOption, rpcCommand, type Terminal } from "./terminal.ts";

interface TeamOption extends JsonOption {
  team: string;
}

/** `keys create | list | revoke | verify`. */
export function addKeyCommands(program: Command, terminal: Terminal): void {
  const keys = program.command("keys").description("Manage and verify a team's API keys.");

  rpcCommand(keys, "create", "Create a key, and print it alone on standard output: it is shown only once.")
    .requiredOption("--team <team_id>", "the team that the key is for")
    .option("--label <label>", "what to call it")
    .action((options: TeamOption & { label?: string }) => createKey(terminal, options));

  rpcCommand(keys, "list", "List a team's keys, newest first.")
    .requiredOption("--team <team_id>", "the team")
    .option("--revoked", "show revoked keys too")
    .action((options: TeamOption & { revoked?: boolean }) => listKeys(terminal, options));

  rpcCommand(keys, "revoke <key_id>", "Revoke a key, at once and for ever.")
    .requiredOption("--team <team_id>", "the team that the key belongs to")
    .action(async (keyId: string, options: TeamOption) => {
      const message = await terminal.server().keys.revokeKey({ teamId: options.team, keyId });
      answer(terminal, options, { desc: RevokeKeyResponseSchema, message }, () =>
        terminal.print(`Key ${message.key?.id} was revoked at ${renderTime(message.key?.revokeTime)}.`),
      );
    });

  rpcCommand(
    keys,
    "verify",
    "Say whether the key on standard input is good, without spending; exit 0 if it is.",
  ).action((options: JsonOption) => verifyKey(terminal, options));
}

async function createKey(terminal: Terminal, options: TeamOption & { label?: string }): Promise<void> {
  const message = await terminal
    .server()
    .keys.createKey({ teamId: options.team, label: options.label ?? "" });
  answer(terminal, options, { desc: CreateKeyResponseSchema, message }, () => terminal.print(message.value));
  const label = message.key?.label ? ` (${message.key.label})` : "";
  terminal.note(`Key ${message.key?.id}${label} of team ${options.team} is created.`);
  terminal.note("It is shown only once: store it where you keep secrets.");
}

async function listKeys(terminal: Terminal, options: TeamOption & { revoked?: boolean }): Promise<void> {
  const { keys: client } = terminal.server();
  const request = { teamId: options.team, pageSize, showRevoked: options.revoked ?? false };
  const pages = await allPages((pageToken) => client.listKeys({ ...request, pageToken }));
  const keys = pages.flatMap((page) => page.keys);
  const message = { ...pages[0], keys, nextPageToken: "" };
  answer(terminal, options, { desc: ListKeysResponseSchema, message }, () => {
    const head = ["LABEL", "KEY", "ID", "CREATED", "LAST USED", ...(options.revoked ? ["REVOKED"] : [])];
    for (const line of renderTable(head, keys.map(cellsOf))) terminal.print(line);
    terminal.note(`${message.activeKeyCount} of at most ${message.activeKeyCountMax} active keys.`);
  });
}

function cellsOf(key: Key): string[] {
  return [
    key.label || "-",
    key.redactedValue,
    key.id,
    renderTime(key.createTime),
    renderTime(key.lastUseTime, "never"),
    key.state === KeyState.REVOKED ? renderTime(key.revokeTime) : "",
  ];
}

async function verifyKey(terminal: Terminal, options: JsonOption): Promise<void> {
  const value = await terminal.readLine();
  if (value === "")
    throw new CommandFailure("There is no key on standard input: send one line with the key.");
  const message = await terminal.server().keys.verifyKey({ value, cost: 0 });
  answer(terminal, options, { desc: VerifyKeyResponseSchema, message }, () => {
    const name = VerifyKeyResponse_VerdictSchema.value[message.verdict]?.name ?? "VERDICT_UNSPECIFIED";
    terminal.print(name.replace(/^VERDICT_/, ""));
    if (message.keyId !== "") {
      terminal.note(`Key ${message.keyId} of team ${message.teamId}, plan ${planName(message.plan) ?? "-"}.`);
    }
  });
  terminal.endWith(message.verdict === VerifyKeyResponse_Verdict.VALID ? 0 : 1);
}
