import type { WholeBody } from "../../http/handler.ts";
import { isHttp2Request, type NodeRequest } from "../node-http.ts";

/**
 * The bytes of a body that arrive one chunk after the other, in one buffer. Long memory is freed by
 * hand as soon as nothing needs it. The garbage collector hardly feels such memory: uploads at full
 * speed would leave a hundred megabytes behind before it runs.
 */
export class CollectedBytes {
  readonly #req: NodeRequest;
  readonly #declaredBytes: number;
  #held: Buffer = noBytes;
  /** The memory of `#held`, if nothing else has a part of it and it is worth freeing. */
  #own: ArrayBuffer | undefined;
  /** How many bytes are collected and not taken. */
  size = 0;
  /** The same with those that were taken. */
  arrivedBytes = 0;

  /** `declaredBytes` is the announced length of the body; NaN if none was announced. */
  constructor(req: NodeRequest, declaredBytes: number) {
    this.#req = req;
    this.#declaredBytes = declaredBytes;
  }

  /** Adds a chunk. `bytesMax` are the most bytes that will be collected. */
  add(chunk: Buffer, bytesMax: number): void {
    const size = this.size + chunk.length;
    // The only chunk of a body is not copied.
    if (this.size === 0) {
      this.#held = chunk;
      this.#own = ownMemory(this.#req, chunk);
    } else {
      if (size > this.#held.length) this.#grow(size, bytesMax);
      chunk.copy(this.#held, this.size);
      freeChunk(this.#req, chunk);
    }
    this.size = size;
    this.arrivedBytes += chunk.length;
  }

  /** Makes room for the whole body if its length is known, otherwise for more than is needed. */
  #grow(needed: number, bytesMax: number): void {
    const isKnown = this.#declaredBytes >= needed && this.#declaredBytes <= bytesMax;
    const roomy = Math.min(Math.max(2 * needed, grownBytesMin), Math.max(needed, bytesMax));
    const size = isKnown ? this.#declaredBytes : roomy;
    const grown = size < freedBytesMin ? Buffer.allocUnsafe(size) : Buffer.allocUnsafeSlow(size);
    this.#held.copy(grown, 0, 0, this.size);
    free(this.#own);
    this.#held = grown;
    this.#own = size < freedBytesMin ? undefined : (grown.buffer as ArrayBuffer);
  }

  /** Returns what is collected, which the caller then owns. */
  take(): WholeBody {
    const body = wholeBody(this.#held.subarray(0, this.size), this.#own);
    this.#held = noBytes;
    this.#own = undefined;
    this.size = 0;
    return body;
  }
}

/** The whole body where it came in one chunk. */
export function bodyOfChunk(req: NodeRequest, chunk: Buffer | null): WholeBody {
  return chunk === null ? { kind: "whole", bytes: noBytes } : wholeBody(chunk, ownMemory(req, chunk));
}

/** Frees the memory of a chunk that nothing needs any more, if it may be freed. */
export function freeChunk(req: NodeRequest, chunk: Buffer): void {
  free(ownMemory(req, chunk));
}

function wholeBody(bytes: Buffer, own: ArrayBuffer | undefined): WholeBody {
  return own === undefined ? { kind: "whole", bytes } : { kind: "whole", bytes, free: () => free(own) };
}

/**
 * Returns the memory of a chunk if nothing else has a part of it and it is worth freeing by hand.
 * Over HTTP/1.1 Node copies each chunk out of what it has read; over HTTP/2 the chunks that it has
 * read at once share their memory.
 */
function ownMemory(req: NodeRequest, { buffer, byteLength }: Buffer): ArrayBuffer | undefined {
  if (byteLength < freedChunkBytesMin || isHttp2Request(req)) return undefined;
  return buffer instanceof ArrayBuffer && buffer.byteLength === byteLength ? buffer : undefined;
}

/** Every view of the memory is then empty. */
function free(memory: ArrayBuffer | undefined): void {
  if (memory?.detached === false) memory.transfer(0);
}

const noBytes: Buffer = Buffer.alloc(0);

/** So that a body that comes byte by byte does not grow many times. */
const grownBytesMin = 1_024;

/** To free less costs more than it gives. */
const freedBytesMin = 64 * 1024;

/** The same for a chunk. Node reads up to 64 KiB at once, and the head is a part of that. */
const freedChunkBytesMin = 16 * 1024;
