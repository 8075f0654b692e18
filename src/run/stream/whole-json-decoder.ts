import { ByteBuffer, type Memory } from "./byte-buffer.ts";
import { decodeUtf8 } from "./line-reader.ts";
import { textOfJson } from "./message-text.ts";
import type { PieceDecoder } from "./piece-decoder.ts";

/** Reads a body that is one message, of at most `bytesMax` bytes. */
export class WholeJsonDecoder implements PieceDecoder {
  readonly #body: ByteBuffer;

  constructor(bytesMax: number, memory?: Memory) {
    this.#body = new ByteBuffer(bytesMax, `The answer has more than ${bytesMax} bytes.`, memory);
  }

  feed(bytes: Buffer): void {
    this.#body.append(bytes);
  }

  next(): undefined {}

  end(): string {
    return textOfJson(decodeUtf8(this.#body.take()));
  }
}
