import { isUtf8 } from "node:buffer";
import { appFailed } from "../backend-runner.ts";
import { ByteBuffer, type Memory } from "./byte-buffer.ts";

/**
 * Cuts bytes into lines of strict UTF-8. A line may end with LF or CRLF, and with `endsAtCr` also
 * with CR alone. Each byte is looked at once for each kind of end, and only a line that is not
 * complete at the end of a chunk is copied.
 */
export class LineReader {
  readonly #bytesMax: number;
  readonly #endsAtCr: boolean;
  readonly #unfinished: ByteBuffer;
  #chunk: Buffer = noBytes;
  #position = 0;
  /** Where the next LF and CR of the chunk are. Looked for again only when they are passed. */
  #lf = -1;
  #cr = -1;
  /** The last chunk ended with CR, so that an LF at the start of this one belongs to it. */
  #skipsLf = false;

  constructor(how: { bytesMax: number; endsAtCr: boolean; memory: Memory | undefined }) {
    const { bytesMax, endsAtCr, memory } = how;
    this.#bytesMax = bytesMax;
    this.#endsAtCr = endsAtCr;
    const tooMany = `A line of the answer has more than ${bytesMax} bytes.`;
    this.#unfinished = new ByteBuffer(bytesMax, tooMany, memory);
  }

  /** Gives it the next bytes. Call it only after `next` has returned undefined. */
  feed(bytes: Buffer): void {
    this.#chunk = bytes;
    this.#position = 0;
    if (bytes.byteLength > 0 && this.#skipsLf) {
      this.#skipsLf = false;
      if (bytes[0] === lf) this.#position = 1;
    }
    this.#lf = bytes.indexOf(lf, this.#position);
    this.#cr = this.#endsAtCr ? bytes.indexOf(cr, this.#position) : -1;
  }

  /**
   * The next line without its end, valid until the next call of `feed`. Undefined where it needs
   * more bytes. Throws APP_FAILED for a line of too many bytes, or one that is not UTF-8.
   */
  next(): Buffer | undefined {
    const end = this.#nextEnd();
    if (end < 0) {
      this.#unfinished.append(this.#chunk.subarray(this.#position));
      this.#chunk = noBytes;
      this.#position = 0;
      return undefined;
    }
    const isEmpty = end === this.#position && this.#unfinished.isEmpty;
    const line = isEmpty ? noBytes : this.#chunk.subarray(this.#position, end);
    this.#passEnd(end);
    if (isEmpty) return line;
    if (this.#unfinished.isEmpty) return this.#checked(line);
    this.#unfinished.append(line);
    return this.#checked(this.#unfinished.take());
  }

  /** The line that no line end completes. Empty where there is none. */
  rest(): Buffer {
    return this.#checked(this.#unfinished.take());
  }

  #nextEnd(): number {
    if (this.#cr < 0) return this.#lf;
    return this.#lf < 0 ? this.#cr : Math.min(this.#lf, this.#cr);
  }

  #passEnd(end: number): void {
    const chunk = this.#chunk;
    let next = end + 1;
    if (chunk[end] === cr) {
      if (next === chunk.byteLength) this.#skipsLf = true;
      else if (chunk[next] === lf) next += 1;
    }
    this.#position = next;
    if (this.#lf >= 0 && this.#lf < next) this.#lf = chunk.indexOf(lf, next);
    if (this.#cr >= 0 && this.#cr < next) this.#cr = chunk.indexOf(cr, next);
  }

  #checked(line: Buffer): Buffer {
    if (line.byteLength > this.#bytesMax) {
      throw appFailed(`A line of the answer has more than ${this.#bytesMax} bytes.`);
    }
    if (!isUtf8(line)) throw notUtf8();
    return line;
  }
}

const noBytes = Buffer.alloc(0);
const lf = 0x0a;
const cr = 0x0d;

/** Throws APP_FAILED for what is not UTF-8. A byte order mark is kept. */
export function decodeUtf8(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw notUtf8();
  return bytes.toString();
}

function notUtf8() {
  return appFailed("The answer is not UTF-8.");
}
