import { type HeldBytes, overloaded } from "../../limit/byte-budget.ts";
import { appFailed } from "../runner.ts";

/**
 * Collects bytes up to a bound. It copies them, so that many small chunks cost no more than their
 * bytes, and no chunk is kept for a part of it.
 */
export class ByteBuffer {
  readonly #bytesMax: number;
  readonly #tooMany: string;
  readonly #memory: Memory | undefined;
  #bytes: Buffer = noBytes;
  #length = 0;

  /** `tooMany` is what the log says of more bytes than `bytesMax`. */
  constructor(bytesMax: number, tooMany: string, memory?: Memory) {
    this.#bytesMax = bytesMax;
    this.#tooMany = tooMany;
    this.#memory = memory;
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
    this.#memory?.give(this.#bytes.byteLength);
    this.#bytes = noBytes;
    this.#length = 0;
    return taken;
  }

  #grow(length: number): void {
    const size = Math.min(this.#bytesMax, Math.max(2 * this.#bytes.byteLength, length));
    if (this.#memory?.take(size - this.#bytes.byteLength) === false) throw overloaded({ mayHaveRun: true });
    const grown = Buffer.allocUnsafeSlow(size);
    this.#bytes.copy(grown, 0, 0, this.#length);
    this.#bytes = grown;
  }
}

/** Counts what buffers take: a run's own bytes, or what stands for them. */
export type Memory = Pick<HeldBytes, "take" | "give">;

const noBytes = Buffer.alloc(0);
