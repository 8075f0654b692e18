import { fileURLToPath } from "node:url";
import type { Shell } from "./completion-commands.ts";

/**
 * A script for a shell that asks `keyrun complete` at each press of Tab. The answer has a line for
 * each candidate: the word, a space, and what it means.
 *
 * The script calls this clone by its whole path, and never the `./keyrun` that was typed: in the
 * folder of somebody else, Tab would run a program of theirs.
 */
export function completionScript(shell: Shell): string {
  return scripts[shell](fileURLToPath(new URL("../../../keyrun", import.meta.url)));
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
