/**
 * The text with every letter in one case, for a comparison that ignores case. It goes letter by
 * letter, so a part of a text stays a part of it. A letter whose other case has several code points
 * stays as it is.
 */
export function foldCase(text: string): string {
  if (ascii.test(text)) return text.toLowerCase();
  return Array.from(text, foldLetter).join("");
}

const ascii = /^[\0-\x7f]*$/;

/** By way of the upper case, because several lower letters may share one, as "σ" and "ς" do. */
function foldLetter(letter: string): string {
  const upper = letter.toUpperCase();
  const base = isOneCodePoint(upper) ? upper : letter;
  const lower = base.toLowerCase();
  return isOneCodePoint(lower) ? lower : base;
}

function isOneCodePoint(text: string): boolean {
  const [first] = text;
  return first === text;
}
