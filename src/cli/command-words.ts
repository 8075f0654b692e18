// The words of commands: how each is declared, its help, and the options that several have.
import type { Argument, Command, Option } from "commander";
import type { PlanJson } from "#gen/keyrun/v1/team_pb.ts";
import { systemClock } from "../base/clock.ts";
import { programName } from "../base/program.ts";
import type { PlanName } from "../settings/config.ts";
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
function spanIn(text: string): number | undefined {
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

/**
 * The end of a new key that `--expires` names, in RFC 3339. The server takes a minute or more, and
 * the call needs time to get there, so the shortest span is made `allowanceMs` longer.
 */
export function readNewExpiry(text: string): string {
  return momentOf(text, minuteMs + allowanceMs);
}

/** The end that a key gets later, which may be at once: the moment that `--expires` names. */
export function readExpiry(text: string): string {
  return momentOf(text, 0);
}

/** Enough for a slow call, or for a clock that is a little behind the server's. */
const allowanceMs = 5_000;

/** The moment in RFC 3339. A date is its first moment in UTC. */
function momentOf(text: string, spanMsMin: number): string {
  const span = spanIn(text);
  if (span !== undefined && span > 0) {
    return new Date(systemClock.unixMs() + Math.max(span, spanMsMin)).toISOString();
  }
  const [, day] = timeForm.exec(text) ?? [];
  const timeMs = Date.parse(text);
  if (day === undefined || Number.isNaN(timeMs)) {
    throw wrongUse("--expires must be a time from now, like 90d or 12h, or a date, like 2027-01-31.");
  }
  if (!isDay(day)) throw wrongUse(`--expires must be a day that exists: ${day} does not.`);
  return new Date(timeMs).toISOString();
}

const timeForm = /^(\d{4}-\d\d-\d\d)(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d))?$/;

/** `Date.parse` takes the 31st of every month, and goes on into the next one. */
function isDay(day: string): boolean {
  return new Date(Date.parse(day)).toISOString().startsWith(day);
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
