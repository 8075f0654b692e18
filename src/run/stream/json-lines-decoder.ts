import type { Memory } from "./byte-buffer.ts";
import { LineReader } from "./line-reader.ts";
import { textOfPart } from "./message-text.ts";
import type { PieceDecoder } from "./piece-decoder.ts";

/**
 * Reads `application/x-ndjson`: a message a line, each of at most `bytesMax` bytes. An empty line
 * is a sign of life. The last line needs no line end.
 */
export class JsonLinesDecoder implements PieceDecoder {
  readonly #lines: LineReader;

  constructor(bytesMax: number, memory?: Memory) {
    this.#lines = new LineReader({ bytesMax, endsAtCr: false, memory });
  }

  feed(bytes: Buffer): void {
    this.#lines.feed(bytes);
  }

  next(): string | undefined {
    const line = this.#lines.next();
    return line === undefined ? undefined : textOfLine(line);
  }

  end(): string {
    return textOfLine(this.#lines.rest());
  }
}

function textOfLine(bytes: Buffer): string {
  if (bytes.byteLength === 0) return "";
  const line = bytes.toString();
  return emptyLine.test(line) ? "" : textOfPart(line);
}

/** Without anything that JSON takes for more than whitespace. */
const emptyLine = /^[ \t\r]*$/;
