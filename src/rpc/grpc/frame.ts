/**
 * The wire form of gRPC that our handler for unary calls reads and writes: the frame of a message,
 * and `grpc-timeout`.
 */

import { fail } from "../../refusal/refusal.ts";
import { isOver } from "../call-deadline.ts";

/**
 * The length of the prefix before each gRPC message: one byte with the compression flag, and four
 * bytes with the message's length.
 */
export const prefixBytes = 5;

/** The lowest bit of the first byte. The other bits have no meaning. */
const compressedFlag = 1;

/**
 * Returns the one message of a unary request (gRPC over HTTP/2, "Requests"). Refuses a body without
 * a message, with more than one, with a part of one, or with a compressed message although the head
 * names no compression.
 */
export function readMessage(body: Uint8Array): Uint8Array {
  if (body.length === 0) {
    throw fail("UNIMPLEMENTED", { problem: "A unary call takes one message, and none was sent." });
  }
  if (body.length < prefixBytes) throw cut(`${body.length} bytes of a message's prefix`);
  const view = new DataView(body.buffer, body.byteOffset, prefixBytes);
  const length = view.getUint32(1);
  const sent = body.length - prefixBytes;
  if (sent < length) throw cut(`${sent} of a message's ${length} bytes`);
  if (sent > length) {
    throw fail("UNIMPLEMENTED", { problem: "A unary call takes one message, and more was sent." });
  }
  if ((view.getUint8(0) & compressedFlag) !== 0) throw fail("MISSING_GRPC_ENCODING");
  return body.subarray(prefixBytes);
}

function cut(what: string) {
  return fail("INVALID_ARGUMENT", { problem: `The body ends after ${what}. Send the message whole.` });
}

/** Returns the message with its prefix, not compressed. */
export function frameOf(message: Uint8Array): Uint8Array {
  const frame = Buffer.allocUnsafe(prefixBytes + message.length);
  frame[0] = 0;
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, prefixBytes);
  return frame;
}

const form = /^(\d{1,8})([HMSmun])$/;
const unitMs: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 0.001,
  n: 0.000001,
};

/**
 * Returns how many milliseconds the call may take: the caller's `grpc-timeout`, but at most
 * `msMax`. Refuses a timeout that can't be read, and one that is over already.
 */
export function readTimeoutMs(value: string | undefined, msMax: number): number {
  if (value === undefined) return msMax;
  const timeoutMs = parseTimeoutMs(value);
  if (timeoutMs === undefined) {
    const problem = "The grpc-timeout can't be read. Send up to eight digits and a unit, as 30S or 500m.";
    throw fail("INVALID_ARGUMENT", { problem });
  }
  if (isOver(timeoutMs)) throw fail("DEADLINE_EXCEEDED");
  return Math.min(timeoutMs, msMax);
}

/** Returns a `grpc-timeout` in milliseconds; undefined if it has no valid form. */
export function parseTimeoutMs(value: string): number | undefined {
  const [, digits, unit = ""] = form.exec(value) ?? [];
  const ms = unitMs[unit];
  return digits === undefined || ms === undefined ? undefined : Number(digits) * ms;
}
