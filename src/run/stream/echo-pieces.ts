import type { Refusal } from "../../refusal/refusal.ts";
import type { PieceSource } from "./piece-source.ts";

/** The built-in app: the input comes back word by word, each with the whitespace after it. */
export class EchoPieces implements PieceSource {
  readonly begun: Promise<void> = Promise.resolve();
  readonly over: Promise<void> = Promise.resolve();
  readonly #words: Iterator<RegExpExecArray, undefined>;
  #refusal: Refusal | undefined;

  constructor(text: string) {
    this.#words = text.matchAll(wordForm);
  }

  next(): string | undefined {
    if (this.#refusal) throw this.#refusal;
    return this.#words.next().value?.[0];
  }

  cancel(reason: Refusal): void {
    this.#refusal = reason;
  }
}

const wordForm = /\S*\s+|\S+/g;
