import type { KeyText } from "../../keys/key-value.ts";

export interface FoundKey {
  /** From 1. */
  readonly line: number;
  /** The full value. Print it only in its redacted form. */
  readonly value: string;
}

/**
 * Finds whole keys in the bytes of one file, which come in pieces. Holds one piece and the end of
 * the one before. Any bytes will do: in a binary file lines end where such a byte is, and a text of
 * two bytes a character, as Windows writes it, is read without the zero bytes.
 */
export class KeyFinder {
  readonly #keys: KeyText;
  readonly #form: RegExp;
  #rest = "";
  #line = 1;

  constructor(keys: KeyText) {
    this.#keys = keys;
    this.#form = new RegExp(keys.pattern, "g");
  }

  /** The keys that end in this piece. */
  find(bytes: Uint8Array): FoundKey[] {
    const piece = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
    const text = this.#rest + piece.replaceAll("\0", "");
    const found: FoundKey[] = [];
    this.#form.lastIndex = 0;
    for (let match = this.#form.exec(text); match; match = this.#form.exec(text)) {
      const [value] = match;
      // A cut key may have taken the beginning of the next for its own end.
      this.#form.lastIndex = match.index + 1;
      if (this.#keys.isWhole(value)) found.push({ line: this.#line + linesIn(text, match.index), value });
    }
    // No whole key fits into the rest, so none is found twice.
    const restAt = Math.max(0, text.length - (this.#keys.characters - 1));
    this.#line += linesIn(text, restAt);
    this.#rest = text.slice(restAt);
    return found;
  }
}

function linesIn(text: string, end: number): number {
  let lines = 0;
  for (let at = text.indexOf("\n"); at >= 0 && at < end; at = text.indexOf("\n", at + 1)) lines += 1;
  return lines;
}
