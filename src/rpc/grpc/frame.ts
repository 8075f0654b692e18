import { fail } from "../../error.ts";

/** What stands before each message of gRPC: a byte that says whether it is compressed, and four of its length. */
export const prefixBytes = 5;

/** The other bits of that byte have no meaning. */
const compressedFlag = 1;

/**
 * The one message of a unary request (gRPC over HTTP/2, "Requests"). Refuses a body that holds none, more than one, a
 * part of one, or one that is compressed though the head named no compression.
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

/** A message with its prefix, not compressed. */
export function frameOf(message: Uint8Array): Uint8Array {
  const frame = Buffer.allocUnsafe(prefixBytes + message.length);
  frame[0] = 0;
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, prefixBytes);
  return frame;
}
