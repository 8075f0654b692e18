/** Completion in bash, zsh and fish: the script for the shell, and what may stand at the cursor. */

import { Argument, type Command, type Option } from "commander";
import { programPath } from "../base/program.ts";
import { withExamples } from "./command-words.ts";
import { appIds, teamIds } from "./lists.ts";
import type { Terminal } from "./terminal.ts";

/** `completion`, and the hidden `complete` that the shells call at each press of Tab. */
export function addCompletionCommands(program: Command, terminal: Terminal): void {
  const completion = program
    .command("completion")
    .description("Print a script that lets a shell complete commands, options, teams and apps.")
    .addArgument(new Argument("<shell>", "the shell").choices(shells))
    .addHelpText("after", () => `\nTo use it, put this into a file that your shell reads:\n${installWords}`)
    .action((shell: Shell) => terminal.print(completionScript(shell)));
  withExamples(completion, ["completion bash"]);

  program
    .command("complete", { hidden: true })
    .argument("[words...]")
    .helpOption(false)
    .action(async (words: string[]) => {
      for (const { value, does } of await complete(program, terminal, words))
        terminal.print(`${value} ${does}`.trim());
    });
}

const shells = ["bash", "zsh", "fish"] as const;
type Shell = (typeof shells)[number];

const installWords = `  ~/.bashrc                   eval "$(${programPath} completion bash)"
  ~/.zshrc, after compinit    eval "$(${programPath} completion zsh)"
  ~/.config/fish/config.fish  ${programPath} completion fish | source
`;

/**
 * A script for a shell that asks `keyrun complete` at each press of Tab. The answer has a line for
 * each candidate: the word, a space, and what it means.
 *
 * The script calls this program by its whole path, and never the `./keyrun` that was typed: in the
 * folder of somebody else, Tab would run a program of theirs.
 */
function completionScript(shell: Shell): string {
  return scripts[shell](programPath);
}

const scripts: Readonly<Record<Shell, (path: string) => string>> = {
  bash: (path) => `# bash completion for keyrun
_keyrun() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    COMPREPLY+=("\${line%% *}")
  done < <(${quoted(path)} complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _keyrun keyrun`,

  zsh: (path) => `#compdef keyrun
_keyrun() {
  local line
  local -a candidates
  while IFS= read -r line; do
    candidates+=("\${line/ /:}")
  done < <(${quoted(path)} complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)
  (( \${#candidates} )) && _describe keyrun candidates
}
if [ "$funcstack[1]" = "_keyrun" ]; then _keyrun "$@"; else compdef _keyrun keyrun; fi`,

  fish: (path) => `# fish completion for keyrun
function __keyrun_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  ${fishQuoted(path)} complete -- $words[2..-1] "$current" 2>/dev/null | string replace ' ' \\t
end
complete -c keyrun -e
complete -c keyrun -f -a '(__keyrun_complete)'`,
};

/** The path as one word of a POSIX shell. */
function quoted(path: string): string {
  return `'${path.replaceAll("'", "'\\''")}'`;
}

function fishQuoted(path: string): string {
  return `'${path.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}

/**
 * What may stand in place of the last word, which may be empty, after the words before it. Asks the
 * running server for the ids of teams and apps. Without an answer in time there are none.
 */
async function complete(
  program: Command,
  terminal: Terminal,
  words: readonly string[],
): Promise<Candidate[]> {
  const current = words.at(-1) ?? "";
  const place = findPlace(program, words.slice(0, -1));
  const candidates = await candidatesAt(place, terminal, current);
  return candidates.filter(({ value }) => value.startsWith(current));
}

/** A word that may follow, and what it means. */
interface Candidate {
  readonly value: string;
  readonly does: string;
}

/** A person who waits for Tab gives up soon. */
const serverMsMax = 1_000;

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
