import type { Argument, Command, Option } from "commander";
import { appIds, teamIds } from "../id-lists.ts";
import type { Terminal } from "../terminal.ts";

/** A word that may follow, and what it means. */
export interface Candidate {
  readonly value: string;
  readonly does: string;
}

/** A person who waits for Tab gives up soon. */
const serverMsMax = 1_000;

/**
 * What may stand in place of the last word, which may be empty, after the words before it. Asks the
 * running server for the ids of teams and apps. Without an answer in time there are none.
 */
export async function complete(
  program: Command,
  terminal: Terminal,
  words: readonly string[],
): Promise<Candidate[]> {
  const current = words.at(-1) ?? "";
  const place = findPlace(program, words.slice(0, -1));
  const candidates = await candidatesAt(place, terminal, current);
  return candidates.filter(({ value }) => value.startsWith(current));
}

/** Where a command line stands after some words. */
interface Place {
  readonly command: Command;
  /** The option whose value comes next. */
  readonly option?: Option | undefined;
  /** The number of arguments before. */
  readonly position: number;
  readonly given: ReadonlySet<Option>;
}

function findPlace(program: Command, words: readonly string[]): Place {
  let command = program;
  let option: Option | undefined;
  let position = 0;
  const given = new Set<Option>();
  for (const word of words) {
    // bash hands "--team=x" over as three words.
    if (word === "=") continue;
    if (option !== undefined) {
      option = undefined;
    } else if (word.startsWith("-")) {
      const [name = "", value] = word.split("=", 2);
      const found = command.options.find(({ long, short }) => name === long || name === short);
      if (found !== undefined) given.add(found);
      if (value === undefined && found?.required) option = found;
    } else {
      const next = position === 0 ? command.commands.find((each) => each.name() === word) : undefined;
      if (next === undefined) position++;
      else command = next;
    }
  }
  return { command, option, position, given };
}

async function candidatesAt(
  place: Place,
  terminal: Terminal,
  current: string,
): Promise<readonly Candidate[]> {
  const { command, option, position, given } = place;
  if (option !== undefined) return valuesOf(option, command, terminal);
  const help = command.createHelp();
  if (current.startsWith("-")) {
    return help
      .visibleOptions(command)
      .filter((each) => !given.has(each) || each.parseArg !== undefined)
      .map(({ long, description }) => ({ value: long ?? "", does: description }));
  }
  const commands = position > 0 ? [] : help.visibleCommands(command);
  const argument = command.registeredArguments[position];
  return [
    ...commands.map((each) => ({ value: each.name(), does: each.description() })),
    ...(argument === undefined ? [] : await valuesOf(argument, command, terminal)),
  ];
}

async function valuesOf(
  place: Option | Argument,
  command: Command,
  terminal: Terminal,
): Promise<readonly Candidate[]> {
  if (place.argChoices !== undefined) return place.argChoices.map((value) => ({ value, does: "" }));
  const name = "long" in place ? place.attributeName() : place.name();
  const isNew = command.name() === "create" && !("long" in place);
  if (isNew) return [];
  if (name === "team" || name === "team_id") return idsOf(terminal, teamIds);
  return name === "app" || name === "app_id" ? idsOf(terminal, appIds) : [];
}

async function idsOf(terminal: Terminal, list: typeof teamIds): Promise<readonly Candidate[]> {
  const ask = async () => (await list(await terminal.server())).ids;
  const ids = await Promise.race([ask(), never(serverMsMax)]).catch(() => []);
  return ids.map((value) => ({ value, does: "" }));
}

/** Rejects after this time. */
function never(ms: number): Promise<never> {
  return new Promise((_, reject) => setTimeout(() => reject(new Error("late")), ms).unref());
}
