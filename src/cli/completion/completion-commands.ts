import { Argument, type Command } from "commander";
import { withExamples } from "../command-words.ts";
import type { Terminal } from "../terminal.ts";

const shells = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof shells)[number];

/** `completion`, and the hidden `complete` that the shells call at each press of Tab. */
export function addCompletionCommands(program: Command, terminal: Terminal): void {
  const completion = program
    .command("completion")
    .description("Print a script that lets a shell complete commands, options, teams and apps.")
    .addArgument(new Argument("<shell>", "the shell").choices(shells))
    .addHelpText("after", () => `\nTo use it, put this into a file that your shell reads:\n${installWords}`)
    .action(async (shell: Shell) => {
      const { completionScript } = await import("./completion-script.ts");
      terminal.print(completionScript(shell));
    });
  withExamples(completion, ["completion bash"]);

  program
    .command("complete", { hidden: true })
    .argument("[words...]")
    .helpOption(false)
    .action(async (words: string[]) => {
      const { complete } = await import("./complete.ts");
      for (const { value, does } of await complete(program, terminal, words))
        terminal.print(`${value} ${does}`.trim());
    });
}

const installWords = `  ~/.bashrc                   eval "$(<clone>/keyrun completion bash)"
  ~/.zshrc, after compinit    eval "$(<clone>/keyrun completion zsh)"
  ~/.config/fish/config.fish  <clone>/keyrun completion fish | source
`;
