import { prettyFactory } from "pino-pretty";
import { misleadingCharacters } from "./redaction.ts";

/**
 * Turns lines of the log into lines that people read, and hands them to `write`. A finished line
 * comes in, as the log writes it, with its secrets cut already. Control characters come out as
 * `\u001b`: what an app or a store answered must not move the cursor or colour the terminal.
 */
export function createTerminalLog(
  write: (text: string) => unknown,
  { colour }: { readonly colour: boolean },
): { write(line: string): void } {
  const pretty = prettyFactory({
    colorize: colour,
    singleLine: true,
    translateTime: "SYS:HH:MM:ss",
    // A line feed in a message must not begin a line that looks like another record.
    messageFormat: (record, key) => String(record[key] ?? "").replaceAll("\n", "\\n"),
    errorLikeObjectKeys: ["err", "error", "cause"],
  });
  return {
    write(line) {
      if (!auditLine.test(line)) write(pretty(withoutControls(line)));
    },
  };
}

/** An event of the audit log. Its line is for programs; people read it by `./keyrun audit`. */
const auditLine = /"msg":"audit"\}\n?$/;

/**
 * The JSON with every control character of its texts escaped once more, so that it stays an escape
 * when the JSON is read. Line feeds stay, for the stacks of errors.
 */
function withoutControls(line: string): string {
  return line
    .trimEnd()
    .replace(escapes, (found) => (control.test(found) ? `\\${found}` : found))
    .replace(rawControls, (letter) => `\\\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Every escape of JSON, as a whole: the second of two backslashes begins none. */
const escapes = /\\(?:u[0-9a-f]{4}|.)/gi;
const control = /^\\(?:[bfrt]|u00(?:[01]|7f|[89]))/i;
/** JSON need not escape these. */
const rawControls = new RegExp(`[${misleadingCharacters}]`, "g");
