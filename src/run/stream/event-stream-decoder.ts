import { appFailed } from "../backend-runner.ts";
import { ByteBuffer, type Memory } from "./byte-buffer.ts";
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
  #isFirstLine = true;
  /** The data of the event, where it has any: bytes, so that a line costs no more than these. */
  readonly #data: ByteBuffer;
  #hasData = false;
  #isError = false;

  constructor(bytesMax: number, memory?: Memory) {
    this.#lines = new LineReader({ bytesMax, endsAtCr: true, memory });
    const tooMany = `An event of the answer has more than ${bytesMax} bytes.`;
    this.#data = new ByteBuffer(bytesMax, tooMany, memory);
  }

  feed(bytes: Buffer): void {
    this.#lines.feed(bytes);
  }

  next(): string | undefined {
    for (;;) {
      const read = this.#lines.next();
      if (read === undefined) return undefined;
      const line = this.#withoutMark(read);
      if (line.byteLength === 0) return this.#dispatch();
      if (line[0] === colonByte) return "";
      this.#readField(line);
    }
  }

  end(): undefined {
    const rest = this.#withoutMark(this.#lines.rest());
    if (this.#hasData || !(rest.byteLength === 0 || rest[0] === colonByte)) {
      throw appFailed("The answer ended within an event.");
    }
  }

  /** The body may begin with a byte order mark. */
  #withoutMark(line: Buffer): Buffer {
    const isFirst = this.#isFirstLine;
    this.#isFirstLine = false;
    return isFirst && line.indexOf(byteOrderMark) === 0 ? line.subarray(byteOrderMark.byteLength) : line;
  }

  #readField(line: Buffer): void {
    const colon = line.indexOf(colonByte);
    const nameEnd = colon < 0 ? line.byteLength : colon;
    // Longer names mean nothing, and are not decoded.
    const name = nameEnd > namesBytesMax ? "" : line.toString("latin1", 0, nameEnd);
    if (name !== "data" && name !== "event") return;
    const valueStart = colon < 0 ? nameEnd : line[colon + 1] === space ? colon + 2 : colon + 1;
    const value = line.subarray(valueStart);
    if (name === "event") this.#isError = value.equals(errorType);
    else this.#append(value);
  }

  #append(value: Buffer): void {
    if (this.#hasData) this.#data.append(lineFeed);
    this.#hasData = true;
    this.#data.append(value);
  }

  #dispatch(): string {
    if (!this.#hasData && !this.#isError) return "";
    const hadData = this.#hasData;
    const isError = this.#isError;
    this.#hasData = false;
    this.#isError = false;
    const data = this.#data.take();
    if (isError) throw toldError();
    return hadData ? textOfPart(data.toString()) : "";
  }
}

const byteOrderMark = Buffer.from("\ufeff");
const lineFeed = Buffer.from("\n");
const errorType = Buffer.from("error");
const namesBytesMax = "event".length;
const colonByte = 0x3a;
const space = 0x20;
