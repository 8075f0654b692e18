/** Writes the body of a streamed answer, as fast as its caller reads it. */

import { unavailable } from "../../refusal/refusal.ts";
import { type Incoming, isGone, isHttp2Response, type NodeResponse, noteRead } from "../node-http.ts";

/**
 * Writes the body as it comes. Takes the next chunk only when the system has taken the one before,
 * so a reader that stops costs one chunk. Resolves to true when all is written, and to false as
 * soon as the caller disconnects, even while the body waits for something. Rejects with the error
 * of the body. The check of all answers ends one whose caller takes nothing.
 */
export async function streamBody(incoming: Incoming, body: AsyncIterable<Uint8Array>): Promise<boolean> {
  const { res } = incoming;
  if (isGone(res)) {
    abandonBody(body);
    return false;
  }
  const chunks = body[Symbol.asyncIterator]();
  const { promise: gone, resolve: stop } = Promise.withResolvers<false>();
  const onClose = () => stop(false);
  res.once("close", onClose);
  try {
    const isWritten = await Promise.race([writeAll(incoming, chunks), gone]);
    // Not awaited: a body that waits for something ends only after that.
    if (!isWritten) void returned(() => chunks);
    return isWritten;
  } finally {
    res.off("close", onClose);
  }
}

/** Ends a body that nobody reads, and with it the work behind it. */
export function abandonBody(body: AsyncIterable<Uint8Array>): void {
  void returned(() => body[Symbol.asyncIterator]());
}

/** Never rejects: an error at the end of a body must not end the process. */
async function returned(iterator: () => AsyncIterator<Uint8Array>): Promise<void> {
  try {
    await iterator().return?.();
  } catch {}
}

async function writeAll(incoming: Incoming, chunks: AsyncIterator<Uint8Array>): Promise<boolean> {
  const { res } = incoming;
  for (;;) {
    if (isGone(res)) return false;
    const next = await chunks.next();
    if (isGone(res)) return false;
    if (next.done) return true;
    await writeSlowly(incoming, next.value);
  }
}

/**
 * Passes a chunk to Node in small parts, each of them when the system has taken the one before. So
 * almost all that waits for a slow reader is the chunk itself, and every part that is taken shows
 * that the caller reads. Throws if the caller leaves too much unread; a small chunk is always
 * written, so that a stream is not cut off for what others leave unread.
 */
async function writeSlowly(incoming: Incoming, bytes: Uint8Array): Promise<void> {
  const { res, unread, notes } = incoming;
  if (bytes.length > partBytesMax && !unread.hasRoom(bytes.length)) {
    throw unavailable({ mayHaveRun: true, isQuiet: true });
  }
  // The head alone. Over HTTP/2 it is sent already.
  if (bytes.length === 0 && !isHttp2Response(res)) res.flushHeaders();
  unread.add(bytes.length);
  for (let at = 0; at < bytes.length && !isGone(res); at += partBytesMax) {
    const part = bytes.subarray(at, at + partBytesMax);
    await written(res, part);
    unread.remove(part.length);
    if (notes !== undefined) notes.bytes += part.length;
    noteRead(res);
  }
}

const partBytesMax = 16 * 1024;

/**
 * Resolves when the system has taken the bytes, or when it never will, because the caller has
 * disconnected or has reset its stream. Node keeps a stream open that is reset without an error.
 */
function written(res: NodeResponse, bytes: Uint8Array): Promise<void> {
  return new Promise((resolve) => {
    const stream = isHttp2Response(res) ? res.stream : undefined;
    const done = () => {
      res.off("close", done);
      stream?.off("aborted", done);
      resolve();
    };
    res.once("close", done);
    stream?.once("aborted", done);
    if (isHttp2Response(res)) res.write(bytes, "utf8", done);
    else res.write(bytes, "utf8", done);
  });
}
