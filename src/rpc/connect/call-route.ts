/** One request through Connect: our request value in, our response value out. */

import { setImmediate } from "node:timers/promises";
import { createContextValues } from "@connectrpc/connect";
import type { UniversalServerResponse } from "@connectrpc/connect/protocol";
import {
  beforeWork,
  type HttpRequest,
  type HttpResponse,
  type Reservation,
  startingWith,
  untilEnded,
} from "../../http/handler.ts";
import { flatHeaders, headersOf } from "../../http/headers.ts";
import { overloaded } from "../../limit/byte-budget.ts";
import { Refusal } from "../../refusal/refusal.ts";
import { parseTimeoutMs, prefixBytes } from "../grpc/frame.ts";
import { type CallState, callStateKey } from "./call-state.ts";
import { connectErrorFrom } from "./connect-refusal.ts";
import type { RpcRoute } from "./routes.ts";

/** Serves a request with Connect's handler of one method. */
export async function callRoute(
  route: RpcRoute,
  request: HttpRequest,
  { onRefusal, messageBytesMax }: { onRefusal: (refusal: Refusal) => void; messageBytesMax: number },
): Promise<HttpResponse> {
  const state: CallState = {
    request,
    principal: undefined,
    rateNow: undefined,
    deadline: undefined,
  };
  const header = headersOf(request.rawHeaders);
  shortenTimeouts(header);
  // A Connect GET has no body. Connect would look at the type of one all the same.
  if (request.method === "GET") header.delete("content-type");
  const response = await route({
    httpVersion: request.httpVersion,
    method: request.method,
    // Connect reads only the query.
    url: `http://localhost${request.target}`,
    header,
    body: bodyOf(state, onRefusal, messageBytesMax),
    signal: request.signal,
    contextValues: createContextValues().set(callStateKey, state),
  });
  return answerOf(response);
}

/**
 * The body ends with the call, because Connect reads it to its end even past the deadline. Throws
 * refusals as ConnectErrors, because Connect sends every other error as INTERNAL.
 */
async function* bodyOf(
  state: CallState,
  onRefusal: (refusal: Refusal) => void,
  messageBytesMax: number,
): AsyncGenerator<Uint8Array> {
  try {
    const { request } = state;
    const chunks = request.bodyChunks();
    const taken = state.deadline ? untilEnded(chunks, state.deadline.signal) : chunks;
    const isEnveloped = envelopedType.test(request.header("content-type") ?? "");
    const { reservation } = request;
    yield* wholeMessages(taken, { isEnveloped, bytesMax: messageBytesMax, reservation });
  } catch (thrown) {
    if (!(thrown instanceof Refusal)) throw thrown;
    const refusal = beforeWork(thrown);
    onRefusal(refusal);
    throw connectErrorFrom(refusal);
  }
}

/** The types of the protocols that put each message into an envelope with its length. */
const envelopedType = /^application\/(grpc|connect\+)/i;

async function answerOf({ status, header, body, trailer }: UniversalServerResponse): Promise<HttpResponse> {
  // Counted in `routes.ts`, because a gRPC status may follow a body that began with 200.
  const head = { status, headers: flatHeaders(header), uncounted: true } as const;
  if (body === undefined) return { ...head, body: "" };
  // Connect's unary protocol: the body is one message. The server sets the length.
  if (header?.has("content-length")) {
    header.delete("content-length");
    return { ...head, headers: flatHeaders(header), body: await wholeOf(body) };
  }
  const messages = body[Symbol.asyncIterator]();
  const trailers = trailer && { trailers: () => flatHeaders(trailer) };
  const first = messages.next();
  // Some clients that read the end of a stream break off their own upload at once, and then lose an
  // answer whose end comes later. So a refusal before the first message is sent as a whole.
  const known = await Promise.race([first, setImmediate(undefined)]);
  if (known?.done === false && isEndOfStream(known.value)) {
    await messages.next();
    return { ...head, ...trailers, body: known.value };
  }
  // Over gRPC its status goes into the head, as Node would send trailers only a turn later.
  if (known?.done && trailer?.get("grpc-status") !== "0" && isPlain(header)) {
    return { ...head, headers: [...head.headers, ...flatHeaders(trailer)], body: "" };
  }
  return { ...head, ...trailers, body: startingWith(first, messages) };
}

/** Whether a service has set no header of its own, which clients would not find among trailers. */
function isPlain(header: Headers | undefined): boolean {
  return [...(header?.keys() ?? [])].every((name) => /^(content-type|grpc-.*)$/.test(name));
}

/** The flags of the last message: Connect's end of the stream, and gRPC-Web's trailers. */
function isEndOfStream(message: Uint8Array): boolean {
  return ((message[0] ?? 0) & 0x82) !== 0;
}

async function wholeOf(body: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks);
}

/** The longest time of a timer of Node. A longer one is over at once, with a warning. */
const timerSecondsMax = Math.floor((2 ** 31 - 1) / 1_000);

/**
 * Shortens a caller's timeout that is longer than a timer can be, because Connect starts a timer
 * for it. Any other value stays as it is, also one that Connect refuses.
 */
function shortenTimeouts(headers: Headers): void {
  const grpcMs = parseTimeoutMs(headers.get("grpc-timeout") ?? "") ?? 0;
  if (grpcMs > timerSecondsMax * 1_000) headers.set("grpc-timeout", `${timerSecondsMax}S`);
  const connectMs = /^\d{10}$/.exec(headers.get("connect-timeout-ms") ?? "")?.[0] ?? "0";
  if (Number(connectMs) > timerSecondsMax * 1_000) headers.set("connect-timeout-ms", `${timerSecondsMax}000`);
}

/**
 * Passes a body on at the ends of its messages, few of them at once. Connect keeps each chunk as an
 * object until its message is whole, so a body that comes byte by byte would take hundreds of times
 * its memory. Here it waits in one buffer. Connect also takes all messages of a chunk apart before
 * it passes on the first, which takes 30 ms for 64 KiB of empty ones. What is longer than
 * `bytesMax` is passed on at once, for Connect to refuse. The last chunk is the rest, whole or not.
 */
export async function* wholeMessages(
  chunks: AsyncIterable<Uint8Array>,
  { isEnveloped, bytesMax, reservation }: MessageBounds,
): AsyncGenerator<Uint8Array> {
  let waiting: Uint8Array = noBytes;
  let size = 0;
  for await (const chunk of chunks) {
    const wanted = size + chunk.byteLength;
    // A chunk that nothing waits for is not copied.
    if (size === 0) waiting = chunk;
    else {
      if (wanted > waiting.byteLength) {
        waiting = grown(waiting, wanted);
        if (!reservation.reserveUpTo(waiting.byteLength)) throw overloaded();
      }
      waiting.set(chunk, size);
    }
    size = wanted;
    for (;;) {
      const ready = isEnveloped
        ? envelopesIn(waiting.subarray(0, size), bytesMax)
        : size > bytesMax
          ? size
          : 0;
      if (ready === 0) break;
      yield waiting.subarray(0, ready);
      waiting = waiting.subarray(ready, size);
      size -= ready;
    }
  }
  if (size > 0) yield waiting.subarray(0, size);
}

interface MessageBounds {
  /** Whether each message is in an envelope with its length. */
  readonly isEnveloped: boolean;
  /** The longest message. */
  readonly bytesMax: number;
  readonly reservation: Reservation;
}

function grown(bytes: Uint8Array, wanted: number): Uint8Array {
  const roomier = new Uint8Array(Math.max(wanted, 2 * bytes.byteLength));
  roomier.set(bytes);
  return roomier;
}

/** How many bytes the first whole messages take, each with its flag and its length. */
function envelopesIn(bytes: Uint8Array, bytesMax: number): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let end = 0;
  for (let count = 0; count < messagesAtOnce && end + prefixBytes <= bytes.byteLength; count++) {
    const length = view.getUint32(end + 1);
    if (length > bytesMax) return bytes.byteLength;
    if (end + prefixBytes + length > bytes.byteLength) break;
    end += prefixBytes + length;
  }
  return end;
}

const messagesAtOnce = 32;
const noBytes = new Uint8Array(0);
