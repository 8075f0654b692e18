import { isGone, isHttp2Response, type NodeResponse } from "../node-http.ts";

/**
 * Writes the body as it comes. Takes the next chunk only when node has room for it, so a reader
 * that stops costs one chunk. Resolves to true when all is written, and to false as soon as the
 * caller disconnects, even while the body waits for something. Rejects with the error of the body.
 */
export async function streamBody(res: NodeResponse, body: AsyncIterable<Uint8Array>): Promise<boolean> {
  const chunks = body[Symbol.asyncIterator]();
  const gone = Promise.withResolvers<undefined>();
  const stop = () => {
    // Not awaited: a body that waits for something ends only after that.
    void returned(() => chunks);
    gone.resolve(undefined);
  };
  if (isGone(res)) stop();
  else res.once("close", stop);
  return Promise.race([writeAll(res, chunks), gone.promise.then(() => false)]).finally(() =>
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

async function writeAll(res: NodeResponse, chunks: AsyncIterator<Uint8Array>): Promise<boolean> {
  for (;;) {
    const next = await chunks.next();
    if (isGone(res)) return false;
    if (next.done) return true;
    const hasRoom = isHttp2Response(res) ? res.write(next.value) : res.write(next.value);
    if (!hasRoom) await roomOrGone(res);
  }
}

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
