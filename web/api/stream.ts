import { bounds } from "../bounds.ts";
import type { Caller, CallOptions } from "./caller.ts";
import { isOf, notConnect, RpcError, rpcErrorOf } from "./rpc-error.ts";
import type { Rpc } from "./rpcs.ts";

const streamType = "application/connect+json";

/** A call with a stream of answers, which has no deadline. */
export async function* openStream<I, O>(
  caller: Caller,
  rpc: Rpc<I, O>,
  input: I,
  { signal }: CallOptions = {},
): AsyncGenerator<O> {
  const response = await caller.send(rpc.path, streamType, {
    body: envelope(JSON.stringify(input)),
    signal: signal ?? null,
  });
  if (response.body === null || !isOf(response, streamType)) caller.refuse(notConnect(response));
  for await (const { isEnd, json } of readEnvelopes(response.body)) {
    if (!isEnd) yield json as O;
    else if (hasError(json)) caller.refuse(rpcErrorOf(json.error, response));
    else return;
  }
  throw new RpcError({ code: "unavailable", message: "The stream has ended in the middle." });
}

function hasError(json: unknown): json is { error: unknown } {
  return typeof json === "object" && json !== null && "error" in json;
}

/** One message of a stream. The last one says how the stream has ended. */
interface Envelope {
  readonly isEnd: boolean;
  readonly json: unknown;
}

const headBytes = 5; // Flags, then the length of the message in four bytes.
const compressedFlag = 0b01;
const endFlag = 0b10;

/** A message in an envelope (https://connectrpc.com/docs/protocol/#streaming-request). */
export function envelope(text: string): Uint8Array<ArrayBuffer> {
  const data = new TextEncoder().encode(text);
  const bytes = new Uint8Array(headBytes + data.length);
  new DataView(bytes.buffer).setUint32(1, data.length);
  bytes.set(data, headBytes);
  return bytes;
}

/**
 * The messages in a body, each as soon as its last byte is there, however the bytes are cut.
 * Cancels the body when the reader stops. Throws on what is no envelope of JSON, and on a message
 * over `streamMessageBytesMax`.
 */
async function* readEnvelopes(body: ReadableStream<Uint8Array>): AsyncGenerator<Envelope> {
  const reader = body.getReader();
  let held = new Uint8Array();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      held = joined(held, value);
      for (let length = lengthOf(held); length !== undefined; length = lengthOf(held)) {
        const [flags = 0] = held;
        if ((flags & compressedFlag) !== 0) throw new Error("The page has not asked for compression.");
        const text = new TextDecoder().decode(held.subarray(headBytes, headBytes + length));
        held = held.slice(headBytes + length);
        yield { isEnd: (flags & endFlag) !== 0, json: JSON.parse(text) };
      }
    }
  } finally {
    // Rejects if the connection is lost already.
    await reader.cancel().catch(() => {});
  }
}

/** The length of the first message in these bytes; undefined if it isn't all there. */
function lengthOf(held: Uint8Array): number | undefined {
  if (held.length < headBytes) return undefined;
  const length = new DataView(held.buffer, held.byteOffset).getUint32(1);
  if (length > bounds.streamMessageBytesMax) throw new Error(`A message has ${length} bytes.`);
  return held.length < headBytes + length ? undefined : length;
}

function joined(one: Uint8Array, other: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(one.length + other.length);
  bytes.set(one);
  bytes.set(other, one.length);
  return bytes;
}
