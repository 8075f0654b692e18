import type { Reservation } from "../../http/handler.ts";
import { overloaded } from "../../limit/byte-budget.ts";
import { appFailed } from "../runner.ts";

/**
 * Collects bytes up to a bound. It copies them, so that many small chunks cost no more than their
 * bytes, and no chunk is kept for a part of it. It reserves for its largest size, as it grows.
 */
export class ByteBuffer {
  readonly #bytesMax: number;
  readonly #tooMany: string;
  readonly #reservation: Reservation | undefined;
  /** The largest size for which it has reserved. */
  #reservedBytes = 0;
  #bytes: Buffer = noBytes;
  #length = 0;

  /** `tooMany` is what the log says of more bytes than `bytesMax`. */
  constructor(bytesMax: number, tooMany: string, reservation?: Reservation) {
    this.#bytesMax = bytesMax;
    this.#tooMany = tooMany;
    this.#reservation = reservation;
  }

  get isEmpty(): boolean {
    return this.#length === 0;
  }

  /** Throws APP_FAILED where there are too many, and OVERLOADED where there is no room for them. */
  append(bytes: Buffer): void {
    const length = this.#length + bytes.byteLength;
    if (length > this.#bytesMax) throw appFailed(this.#tooMany);
    if (length > this.#bytes.byteLength) this.#grow(length);
    bytes.copy(this.#bytes, this.#length);
    this.#length = length;
  }

  /** Returns the bytes, and is empty afterwards. */
  take(): Buffer {
    if (this.#bytes === noBytes) return noBytes;
    const taken = this.#bytes.subarray(0, this.#length);
    this.#bytes = noBytes;
    this.#length = 0;
    return taken;
  }

  #grow(length: number): void {
    const size = Math.min(this.#bytesMax, Math.max(2 * this.#bytes.byteLength, length));
    if (size > this.#reservedBytes) {
      const isReserved = this.#reservation?.reserve(size - this.#reservedBytes) ?? true;
      if (!isReserved) throw overloaded({ mayHaveRun: true });
      this.#reservedBytes = size;
    }
    const grown = Buffer.allocUnsafeSlow(size);
    this.#bytes.copy(grown, 0, 0, this.#length);
    this.#bytes = grown;
  }
}

const noBytes = Buffer.alloc(0);
