import type { Argument, Command, Option } from "commander";
import { createStyle } from "./style.ts";

/** How to call Keyrun in the folder of its clone. */
export const programName = "./keyrun";

/** Words about a command that its usage does not have. */
export interface CommandWords {
  readonly does: string;
  /** Calls of the command, without the program's name. */
  readonly examples: readonly string[];
}

/** A command that calls an RPC. With `--json` it prints the response message. */
export function rpcCommand(parent: Command, usage: string, words: CommandWords): Command {
  return withExamples(parent.command(usage).description(words.does), words.examples).option(
    "--json",
    "print the response as JSON",
  );
}

/** A command that only has other commands. Called alone, it prints them, which is wrong use. */
export function commandGroup(parent: Command, name: string, { does, examples }: CommandWords): Command {
  return withExamples(parent.command(name).description(does), examples);
}

/** The command, whose help ends with these calls. */
export function withExamples(command: Command, examples: readonly string[]): Command {
  const lines = examples.map((example) => `  ${programName} ${example}\n`);
  return command.addHelpText(
    "after",
    () => `\n${coloured.strong(examples.length > 1 ? "Examples:" : "Example:")}\n${lines.join("")}`,
  );
}

/** For help, whose colours commander removes where the terminal has none. */
const coloured = createStyle(true);

/** How help is written. */
export function helpForm() {
  return {
    styleTitle: coloured.strong,
    // Below this, commander would not wrap at all.
    minWidthToWrap: 20,
    optionDescription: (option: Option) =>
      [
        option.description,
        option.mandatory && "(required)",
        option.argChoices && `(one of: ${option.argChoices.join(", ")})`,
        option.defaultValue !== undefined && `(default: ${option.defaultValue})`,
      ]
        .filter(Boolean)
        .join(" "),
    argumentDescription: (argument: Argument) =>
      [argument.description, argument.argChoices && `(one of: ${argument.argChoices.join(", ")})`]
        .filter(Boolean)
        .join(" "),
  };
}

/** Collects the values of an option that may be repeated. Absent stays undefined. */
export function append(value: string, before: readonly string[] = []): string[] {
  return [...before, value];
}
