import { unavailable } from "../../refusal/refusal.ts";
import { type Incoming, isGone, isHttp2Response, type NodeResponse } from "../node-http.ts";

/**
 * Writes the body as it comes. Takes the next chunk only when node has room for it, so a reader
 * that stops costs one chunk. Resolves to true when all is written, and to false as soon as the
 * caller disconnects, even while the body waits for something. Rejects with the error of the body.
 */
export async function streamBody(incoming: Incoming, body: AsyncIterable<Uint8Array>): Promise<boolean> {
  const { res } = incoming;
  const chunks = body[Symbol.asyncIterator]();
  const gone = Promise.withResolvers<undefined>();
  const stop = () => {
    // Not awaited: a body that waits for something ends only after that.
    void returned(() => chunks);
    gone.resolve(undefined);
  };
  if (isGone(res)) stop();
  else res.once("close", stop);
  return Promise.race([writeAll(incoming, chunks), gone.promise.then(() => false)]).finally(() =>
    res.off("close", stop),
  );
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
    const next = await chunks.next();
    if (isGone(res)) return false;
    if (next.done) return true;
    if (!write(incoming, next.value)) await roomOrGone(res);
  }
}

/**
 * Returns whether Node has room for more. Throws if the caller leaves too much unread; a small
 * chunk is always written, so that a stream is not cut off for what others leave unread.
 */
function write({ res, unread }: Incoming, bytes: Uint8Array): boolean {
  if (bytes.length > smallChunkBytes && !unread.hasRoom(bytes.length)) {
    throw unavailable({ mayHaveRun: true, isQuiet: true });
  }
  unread.add(bytes.length);
  const done = () => unread.remove(bytes.length);
  return isHttp2Response(res) ? res.write(bytes, "utf8", done) : res.write(bytes, "utf8", done);
}

const smallChunkBytes = 16 * 1024;

function roomOrGone(res: NodeResponse): Promise<void> {
  if (isGone(res)) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      res.off("drain", done).off("close", done);
      resolve();
    };
    res.on("drain", done).on("close", done);
  });
}
