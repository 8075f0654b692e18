import type { ClientHttp2Stream } from "node:http2";
import { Metadata } from "@grpc/grpc-js";
import subchannelCall from "@grpc/grpc-js/build/src/subchannel-call.js";
import { ByteBuffer, type Memory } from "./stream/byte-buffer.ts";

/**
 * Makes gRPC's calls collect what comes into buffers. By itself the library keeps each DATA frame
 * of a message as an object until the message is whole, and so does Node while the call waits for
 * its reader: a frame of one byte then costs 120 to 250 bytes.
 */
export function registerCollectingCalls(): void {
  Object.assign(subchannelCall, { Http2SubchannelCall: CollectingCall });
}

const { Http2SubchannelCall } = subchannelCall;

type CallParameters = ConstructorParameters<typeof Http2SubchannelCall>;

class CollectingCall extends Http2SubchannelCall {
  constructor(...[stream, tracker, listener, transport, id]: CallParameters) {
    super(stream, tracker, listener, transport, id);
    collectWhilePaused(stream);
    const bytesMax = transport.getOptions()["grpc.max_receive_message_length"] ?? defaultMessageBytesMax;
    const memory = memoryIn(stream.sentHeaders);
    const decoder = new MessageDecoder(bytesMax < 0 ? Number.POSITIVE_INFINITY : bytesMax, memory);
    Object.assign(this, { decoder });
  }
}

/** The metadata of a call, and what counts the message of its answer that is not whole yet. */
export class CountedMetadata extends Metadata {
  readonly memory: Memory;

  constructor(memory: Memory) {
    super();
    this.memory = memory;
  }

  /** The library gives its own copies to the connection. */
  override clone(): Metadata {
    const cloned = new CountedMetadata(this.memory);
    cloned.setOptions(this.getOptions());
    cloned.merge(this);
    return cloned;
  }

  override toHttp2Headers() {
    return Object.assign(super.toHttp2Headers(), { [counted]: this });
  }
}

/** HTTP/2 sends no header that is named by a symbol. */
const counted = Symbol("counted");

function memoryIn(headers: object = {}): Memory | undefined {
  const metadata: unknown = Reflect.get(headers, counted);
  return metadata instanceof CountedMetadata ? metadata.memory : undefined;
}

/** The library's own default. */
const defaultMessageBytesMax = 4 * 1024 * 1024;

/**
 * Holds what comes while the stream is paused in one buffer, and out of the stream. That is at most
 * a window of flow control, 64 KiB: a paused stream opens none.
 */
function collectWhilePaused(stream: ClientHttp2Stream): void {
  const late = new ByteBuffer(Number.POSITIVE_INFINITY, "");
  const push = stream.push.bind(stream);
  const pushLate = () => {
    if (!late.isEmpty) push(late.take());
  };
  stream.push = (bytes) => {
    if (bytes === null) pushLate();
    if (bytes === null || (late.isEmpty && !stream.isPaused())) return push(bytes);
    late.append(bytes);
    return false;
  };
  // Node calls this later than `resume`, and the stream may be paused again by then.
  stream.on("resume", () => {
    if (!stream.isPaused()) pushLate();
  });
}

/** Cuts the bytes of an answer into messages, each with its prefix: a flag and its length. */
class MessageDecoder {
  readonly #bytesMax: number;
  readonly #memory: Memory | undefined;
  readonly #prefix = Buffer.alloc(prefixBytes);
  #prefixLength = 0;
  #message: ByteBuffer | undefined;
  /** What is missing of the message. */
  #bytesLeft = 0;

  constructor(bytesMax: number, memory: Memory | undefined) {
    this.#bytesMax = bytesMax;
    this.#memory = memory;
  }

  /** Throws at a message of more than `bytesMax` bytes, or one that there is no room for. */
  write(bytes: Buffer): Buffer[] {
    const messages: Buffer[] = [];
    for (let at = 0; at < bytes.byteLength; ) {
      at += this.#message ? this.#readMessage(this.#message, bytes, at) : this.#readPrefix(bytes, at);
      if (this.#message && this.#bytesLeft === 0) {
        messages.push(this.#message.take());
        this.#message = undefined;
      }
    }
    return messages;
  }

  /** Returns how many bytes it read. */
  #readPrefix(bytes: Buffer, from: number): number {
    const read = bytes.copy(this.#prefix, this.#prefixLength, from);
    this.#prefixLength += read;
    if (this.#prefixLength < prefixBytes) return read;
    this.#prefixLength = 0;
    this.#bytesLeft = this.#prefix.readUInt32BE(1);
    if (this.#bytesLeft > this.#bytesMax) {
      throw new Error(`Received message larger than max (${this.#bytesLeft} vs ${this.#bytesMax})`);
    }
    this.#message = new ByteBuffer(prefixBytes + this.#bytesLeft, "", this.#memory);
    this.#message.append(this.#prefix);
    return read;
  }

  #readMessage(message: ByteBuffer, bytes: Buffer, from: number): number {
    const part = bytes.subarray(from, from + this.#bytesLeft);
    message.append(part);
    this.#bytesLeft -= part.byteLength;
    return part.byteLength;
  }
}

const prefixBytes = 5;
