/** The words of commands: how each is declared, its help, and the options that several have. */

import { type Argument, type Command, Help, type Option } from "commander";
import type { PlanJson } from "#gen/keyrun/v1/team_pb.ts";
import type { PlanName } from "../settings/config.ts";
import { programHere } from "./called.ts";
import { wrongUse } from "./failures.ts";
import { createStyle, type JsonOption } from "./terminal.ts";

/** Words about a command that its usage does not have. */
export interface CommandWords {
  readonly does: string;
  /** Calls of the command, without the program's name. */
  readonly examples: readonly string[];
  /** Whether it prints a table. */
  readonly table?: true;
}

/** A command that calls an RPC. With `--json` it prints the response message. */
export function rpcCommand(parent: Command, usage: string, words: CommandWords): Command {
  const command = withExamples(parent.command(usage).description(words.does), words.examples);
  return withTable(command.option("--json", "print the response as JSON"), words);
}

/** The command, which asks before it does what can't be undone. */
export function withConfirmation(command: Command): Command {
  return command.option("--yes", "don't ask first");
}

/** The command, with what may be said about its table if it prints one. */
export function withTable(command: Command, { table }: Pick<CommandWords, "table">): Command {
  if (!table) return command;
  return command
    .option("--columns <names>", "only these columns of the table, like id,created")
    .option("--wide", "all columns, also where they don't fit the terminal");
}

/** A command that only has other commands. Called alone, it prints them, which is wrong use. */
export function commandGroup(parent: Command, name: string, { does, examples }: CommandWords): Command {
  return withExamples(parent.command(name).description(does), examples);
}

/** The command, whose help ends with these calls. */
export function withExamples(command: Command, examples: readonly string[]): Command {
  const lines = examples.map((example) => `  ${programHere} ${example}\n`);
  return command.addHelpText(
    "after",
    () => `\n${coloured.strong(examples.length > 1 ? "Examples:" : "Example:")}\n${lines.join("")}`,
  );
}

/** For help, whose colours commander removes where the terminal has none. */
const coloured = createStyle(true);

/** What a newcomer needs, under these titles. The help shows the other commands by --help-all. */
const firstCommands: Readonly<Record<string, readonly string[]>> = {
  "Start:": ["serve", "doctor", "sign-in-link"],
  "Keys and runs:": ["keys", "run", "runs", "limit", "usage"],
  "Teams and apps:": ["teams", "members", "apps"],
};

/** Puts the commands of the program under the titles of its help. */
export function groupCommands(program: Command): void {
  for (const command of program.commands) command.helpGroup(titleOf(command) ?? "For operators:");
}

function titleOf(command: Command): string | undefined {
  return Object.keys(firstCommands).find((title) => firstCommands[title]?.includes(command.name()));
}

/** How help is written. That of the program shows all commands if `showsAll` says so. */
export function helpForm(showsAll: () => boolean) {
  return {
    visibleCommands(command: Command): Command[] {
      const all = new Help().visibleCommands(command);
      const isWhole = command.parent !== null || showsAll();
      return isWhole ? all : all.filter((each) => titleOf(each) !== undefined);
    },
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

/** An option that may be left out where there is one team. */
export interface TeamOption extends JsonOption {
  team?: string;
}

/** Collects the values of an option that may be repeated. Absent stays undefined. */
export function append(value: string, before: readonly string[] = []): string[] {
  return [...before, value];
}

const minuteMs = 60_000;
const unitMs: Readonly<Record<string, number>> = { d: 1_440 * minuteMs, h: 60 * minuteMs, m: minuteMs };

/** A time like 90d, 12h or 30m in milliseconds; undefined where the text is none. */
export function spanIn(text: string): number | undefined {
  const [, digits, unit = ""] = /^(\d{1,5})([dhm])$/.exec(text) ?? [];
  const ms = Number(digits) * (unitMs[unit] ?? Number.NaN);
  return Number.isNaN(ms) ? undefined : ms;
}

/** The time that an option names, in milliseconds: more than none. */
export function readSpan(text: string, option: string): number {
  const ms = spanIn(text);
  if (ms !== undefined && ms > 0) return ms;
  throw wrongUse(`${option} must be a number of days, hours or minutes, like 90d, 12h or 30m.`);
}

/** As `readSpan`, in the form of a duration; 0 is allowed. */
export function readDuration(text: string, option: string): string {
  return `${(text === "0" ? 0 : readSpan(text, option)) / 1_000}s`;
}

const planMessages: Readonly<Record<PlanName, PlanJson>> = {
  free: "PLAN_FREE",
  pro: "PLAN_PRO",
  team: "PLAN_TEAM",
  enterprise: "PLAN_ENTERPRISE",
};

/** The plan as messages name it. */
export function planMessage(name: PlanName): PlanJson {
  return planMessages[name];
}

/** The plan as people name it; "-" if a message has none. */
export function planName(plan: PlanJson | undefined): string {
  return Object.entries(planMessages).find(([, name]) => name === plan)?.[0] ?? "-";
}
