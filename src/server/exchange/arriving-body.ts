import { constants } from "node:http2";
import type { WholeBody } from "../../http/handler.ts";
import { type Incoming, isHttp2Request, type NodeRequest } from "../node-http.ts";
import type { TransportLimits } from "../transport.ts";

/**
 * Collects the bytes of a body in one buffer as they arrive. A body may come byte by byte. In
 * Node's stream each of these bytes would wait as an object, which takes hundreds of times its
 * memory.
 */
export class ArrivingBody {
  readonly #req: NodeRequest;
  #held: Buffer = noBytes;
  /** The memory of `#held`, if nothing else has a part of it and it is worth freeing by hand. */
  #own: ArrayBuffer | undefined;
  #size = 0;
  #bytesMax: number;
  readonly #declaredBytes: number;
  #isPaused = false;
  #end: "whole" | "cut_off" | undefined;
  #onChange: () => void = ignore;
  #onBytes: (bytes: Buffer) => void = (bytes) => this.#collect(bytes);
  #dropTimer: NodeJS.Timeout | undefined;
  #onDropped: () => void = ignore;

  /**
   * Bytes past `bytesMax` wait with the sender. `declaredBytes` is the announced length of the
   * body; NaN if none was announced.
   */
  constructor(
    { req }: Pick<Incoming, "req">,
    { bytesMax, declaredBytes }: { readonly bytesMax: number; readonly declaredBytes: number },
  ) {
    this.#req = req;
    this.#bytesMax = bytesMax;
    this.#declaredBytes = declaredBytes;
    req.on("data", (bytes: Buffer) => this.#onBytes(bytes));
    req.on("end", () => this.#endAs(isCutOff(req) ? "cut_off" : "whole"));
    req.on("close", () => {
      this.#endAs("cut_off");
      this.#onDropped();
    });
  }

  /** How many bytes are collected and not taken. */
  get size(): number {
    return this.#size;
  }

  /** Undefined while more bytes may come. */
  get end(): "whole" | "cut_off" | undefined {
    return this.#end;
  }

  /** Sets what is called when bytes have arrived, and once at the end. */
  watch(onChange: () => void): void {
    this.#onChange = onChange;
  }

  /** Changes how many bytes are collected at most. */
  allow(bytesMax: number): void {
    this.#bytesMax = bytesMax;
    if (this.#size <= bytesMax) this.#resume();
  }

  /** Returns the collected bytes, which the caller then owns. */
  take(): Buffer {
    const taken = this.#held.subarray(0, this.#size);
    this.#held = noBytes;
    this.#own = undefined;
    this.#size = 0;
    this.#resume();
    return taken;
  }

  /** Like `take`, when no more bytes will come. */
  takeWhole(): WholeBody {
    const own = this.#own;
    return wholeBody(this.take(), own);
  }

  /**
   * Reads the rest of the body and drops it, so that the caller can finish its upload and read the
   * answer. If the upload were cut off, clients would see a network error and upload again. Past
   * the bounds the connection closes, or over HTTP/2 the stream. `onDropped` is called when the
   * request is closed.
   */
  drop(limits: TransportLimits, onDropped: () => void): void {
    let bytesLeft = limits.drainedBodyBytesMax;
    let chunksLeft = limits.drainedBodyChunksMax;
    this.#onBytes = (bytes) => {
      bytesLeft -= bytes.length;
      chunksLeft -= 1;
      free(ownMemory(this.#req, bytes));
      if (bytesLeft < 0 || chunksLeft < 0) this.#cutOff();
    };
    this.#onChange = ignore;
    this.#onDropped = onDropped;
    this.#dropTimer = setTimeout(() => this.#cutOff(), limits.drainedBodyMsMax);
    this.#discard();
  }

  #discard(): void {
    const own = this.#own;
    this.take();
    free(own);
  }

  #cutOff(): void {
    this.#onBytes = ignore;
    if (isHttp2Request(this.#req)) this.#req.stream.close(constants.NGHTTP2_NO_ERROR);
    else this.#req.socket.destroySoon();
  }

  #collect(bytes: Buffer): void {
    const size = this.#size + bytes.length;
    // The only chunk of a body is not copied.
    if (this.#size === 0) {
      this.#held = bytes;
      this.#own = ownMemory(this.#req, bytes);
    } else {
      if (size > this.#held.length) this.#grow(size);
      bytes.copy(this.#held, this.#size);
      free(ownMemory(this.#req, bytes));
    }
    this.#size = size;
    if (this.#size > this.#bytesMax) {
      this.#isPaused = true;
      this.#req.pause();
    }
    this.#onChange();
  }

  /** Makes room for the whole body if its length is known, otherwise for more than is needed. */
  #grow(needed: number): void {
    const isKnown = this.#declaredBytes >= needed && this.#declaredBytes <= this.#bytesMax;
    const roomy = Math.min(Math.max(2 * needed, grownBytesMin), Math.max(needed, this.#bytesMax));
    const size = isKnown ? this.#declaredBytes : roomy;
    const grown = size < freedBytesMin ? Buffer.allocUnsafe(size) : Buffer.allocUnsafeSlow(size);
    this.#held.copy(grown, 0, 0, this.#size);
    free(this.#own);
    this.#held = grown;
    this.#own = size < freedBytesMin ? undefined : (grown.buffer as ArrayBuffer);
  }

  #resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#req.resume();
  }

  #endAs(end: "whole" | "cut_off"): void {
    if (this.#end !== undefined) return;
    this.#end = end;
    // Over HTTP/2 `close` also waits until the caller has read its answer. The upload is not late
    // then.
    clearTimeout(this.#dropTimer);
    this.#onChange();
    if (end === "cut_off") this.#discard();
  }
}

/** So that a body that comes byte by byte does not grow many times. */
const grownBytesMin = 1_024;

/**
 * From this size on, memory that is no longer used is freed at once. The garbage collector hardly
 * feels it: uploads at full speed would leave a hundred megabytes behind before it runs.
 */
const freedBytesMin = 64 * 1024;

/** The same for a chunk. Node reads up to 64 KiB at once, and the head is a part of that. */
const freedChunkBytesMin = 16 * 1024;

/** All bytes of a body. `own` is their memory, if it may be freed by hand. */
export function wholeBody(bytes: Buffer, own: ArrayBuffer | undefined): WholeBody {
  return own === undefined ? { kind: "whole", bytes } : { kind: "whole", bytes, free: () => free(own) };
}

/**
 * Returns the memory of a chunk if nothing else has a part of it and it is worth freeing by hand.
 * Over HTTP/1.1 Node copies each chunk out of what it has read; over HTTP/2 the chunks that it has
 * read at once share their memory.
 */
export function ownMemory(req: NodeRequest, { buffer, byteLength }: Buffer): ArrayBuffer | undefined {
  if (byteLength < freedChunkBytesMin || isHttp2Request(req)) return undefined;
  return buffer instanceof ArrayBuffer && buffer.byteLength === byteLength ? buffer : undefined;
}

/** Every view of the memory is then empty. */
function free(memory: ArrayBuffer | undefined): void {
  if (memory?.detached === false) memory.transfer(0);
}

const noBytes: Buffer = Buffer.alloc(0);
const ignore = () => {};

/** Over HTTP/2 a reset stream ends like a whole one, if its code is NO_ERROR. */
function isCutOff(req: NodeRequest): boolean {
  return isHttp2Request(req) && req.stream.aborted;
}
