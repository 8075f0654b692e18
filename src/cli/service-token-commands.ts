import { type Command, Option } from "commander";
import { append, commandGroup, rpcCommand } from "./command-words.ts";
import type { JsonOption, Terminal } from "./terminal.ts";

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
    .action(async (name: string, options: CreateOptions) => {
      const { createServiceToken } = await import("./service-tokens.ts");
      await createServiceToken(terminal, name, options);
    });

  rpcCommand(tokens, "list", {
    does: "List the tokens, newest first.",
    examples: ["service-tokens list --revoked"],
  })
    .option("--revoked", "show revoked tokens too")
    .action(async (options: ListOptions) => {
      const { listServiceTokens } = await import("./service-tokens.ts");
      await listServiceTokens(terminal, options);
    });

  rpcCommand(tokens, "revoke", {
    does: "Revoke a token, at once and for ever.",
    examples: ["service-tokens revoke billing", "service-tokens revoke 7k3f0m9x2a4c6e8g1j5n7p9q"],
  })
    .argument("<token>", "the service's name, or the token's id")
    .action(async (token: string, options: JsonOption) => {
      const { revokeServiceToken } = await import("./service-tokens.ts");
      await revokeServiceToken(terminal, token, options);
    });
}

export interface CreateOptions extends JsonOption {
  readonly role: "verify" | "manage" | "metrics" | "admin";
  readonly team?: readonly string[];
}

export interface ListOptions extends JsonOption {
  readonly revoked?: boolean;
}
