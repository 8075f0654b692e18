import { misleadingCharacters } from "../log/redaction.ts";

const misleading = new RegExp(`[\\u0000-\\u001f${misleadingCharacters}]`, "g");

/** The text on one line, with "�" for what could mislead the reader of a terminal. */
export function printable(text: string): string {
  return text.replace(misleading, "\ufffd");
}

// `styleText` writes these: the escape character and a number.
const marks = `${String.fromCharCode(27)}\\[\\d{1,2}m`;
const keptInColours = new RegExp(`(\n|${marks})`);
const keptInPlain = /(\n)/;

/** The same for a finished text, whose line breaks stay, and whose colours stay if it has any. */
export function printableText(text: string, { coloured }: { readonly coloured: boolean }): string {
  // Every second part is what the form has found.
  return text
    .split(coloured ? keptInColours : keptInPlain)
    .map((part, index) => (index % 2 === 1 ? part : printable(part)))
    .join("");
}

/** JSON in which such characters are escaped. JSON itself escapes only a part of them. */
export function printableJson(value: unknown): string {
  const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(value, null, 2).replace(misleading, (character) =>
    character === "\n" ? character : escaped(character),
  );
}
