import type { Refusal } from "../../refusal/refusal.ts";
import type { PieceSource } from "./piece-source.ts";

/** The built-in app: the input comes back word by word, each with the whitespace after it. */
export class EchoPieces implements PieceSource {
  readonly begun: Promise<void> = Promise.resolve();
  readonly over: Promise<void> = Promise.resolve();
  readonly #text: string;
  readonly #word = new RegExp(wordForm);
  #refusal: Refusal | undefined;

  constructor(text: string) {
    this.#text = text;
  }

  next(): string | undefined {
    if (this.#refusal) throw this.#refusal;
    const start = this.#word.lastIndex;
    return this.#word.test(this.#text) ? this.#text.slice(start, this.#word.lastIndex) : undefined;
  }

  cancel(reason: Refusal): void {
    this.#refusal = reason;
  }
}

const wordForm = /\S*\s+|\S+/y;
