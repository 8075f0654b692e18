import { appFailed } from "../backend-runner.ts";
import { LineReader } from "./line-reader.ts";
import { textOfPart, toldError } from "./message-text.ts";
import type { PieceDecoder } from "./piece-decoder.ts";

/**
 * Reads `text/event-stream` as the WHATWG standard for server-sent events says. The data of each
 * event is a message. The fields `id` and `retry` mean nothing here, and no type of an event but
 * `error` does: with it the app tells that it failed. The standard drops an event that the end of
 * the body cuts off; here that is a failure, as text would be missing. An event has at most
 * `bytesMax` bytes.
 */
export class EventStreamDecoder implements PieceDecoder {
  readonly #lines: LineReader;
  readonly #bytesMax: number;
  #isFirstLine = true;
  #data: string | undefined;
  #isError = false;

  constructor(bytesMax: number) {
    this.#lines = new LineReader({ bytesMax, endsAtCr: true });
    this.#bytesMax = bytesMax;
  }

  feed(bytes: Buffer): void {
    this.#lines.feed(bytes);
  }

  next(): string | undefined {
    for (;;) {
      const read = this.#lines.next();
      if (read === undefined) return undefined;
      const line = this.#withoutMark(read);
      if (line === "") return this.#dispatch();
      if (line.startsWith(":")) return "";
      this.#readField(line);
    }
  }

  end(): undefined {
    const rest = this.#withoutMark(this.#lines.rest());
    if (this.#data !== undefined || !(rest === "" || rest.startsWith(":"))) {
      throw appFailed("The answer ended within an event.");
    }
  }

  /** The body may begin with a byte order mark. */
  #withoutMark(line: string): string {
    const isFirst = this.#isFirstLine;
    this.#isFirstLine = false;
    return isFirst && line.startsWith(byteOrderMark) ? line.slice(byteOrderMark.length) : line;
  }

  #readField(line: string): void {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    if (name !== "data" && name !== "event") return;
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "event") this.#isError = value === "error";
    else this.#append(value);
  }

  #append(value: string): void {
    this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`;
    if (this.#data.length > this.#bytesMax) {
      throw appFailed(`An event of the answer has more than ${this.#bytesMax} bytes.`);
    }
  }

  #dispatch(): string {
    const data = this.#data;
    const isError = this.#isError;
    this.#data = undefined;
    this.#isError = false;
    if (isError) throw toldError();
    return data === undefined ? "" : textOfPart(data);
  }
}

const byteOrderMark = "\ufeff";
