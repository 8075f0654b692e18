import { appFailed } from "../backend-runner.ts";

/**
 * Collects bytes up to a bound. It copies them, so that many small chunks cost no more than their
 * bytes, and no chunk is kept for a part of it.
 */
export class ByteBuffer {
  readonly #bytesMax: number;
  readonly #tooMany: string;
  #bytes: Buffer = Buffer.alloc(0);
  #length = 0;

  /** `tooMany` is what the log says of more bytes than `bytesMax`. */
  constructor(bytesMax: number, tooMany: string) {
    this.#bytesMax = bytesMax;
    this.#tooMany = tooMany;
  }

  get isEmpty(): boolean {
    return this.#length === 0;
  }

  /** Throws APP_FAILED where there are too many. */
  append(bytes: Buffer): void {
    const length = this.#length + bytes.byteLength;
    if (length > this.#bytesMax) throw appFailed(this.#tooMany);
    if (length > this.#bytes.byteLength) this.#grow(length);
    bytes.copy(this.#bytes, this.#length);
    this.#length = length;
  }

  /** Returns the bytes, and is empty afterwards. */
  take(): Buffer {
    const taken = this.#bytes.subarray(0, this.#length);
    this.#bytes = Buffer.alloc(0);
    this.#length = 0;
    return taken;
  }

  #grow(length: number): void {
    const grown = Buffer.allocUnsafeSlow(
      Math.min(this.#bytesMax, Math.max(2 * this.#bytes.byteLength, length)),
    );
    this.#bytes.copy(grown, 0, 0, this.#length);
    this.#bytes = grown;
  }
}
