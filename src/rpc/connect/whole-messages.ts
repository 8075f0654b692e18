import { prefixBytes } from "../grpc/frame.ts";

/**
 * Passes a body on at the ends of its messages, few of them at once. Connect keeps each chunk as an
 * object until its message is whole, so a body that comes byte by byte would take hundreds of times
 * its memory. Here it waits in one buffer. Connect also takes all messages of a chunk apart before
 * it passes on the first, which takes 30 ms for 64 KiB of empty ones. What is longer than
 * `bytesMax` is passed on at once, for Connect to refuse. The last chunk is the rest, whole or not.
 */
export async function* wholeMessages(
  chunks: AsyncIterable<Uint8Array>,
  { isEnveloped, bytesMax }: { isEnveloped: boolean; bytesMax: number },
): AsyncGenerator<Uint8Array> {
  let held: Uint8Array = noBytes;
  let size = 0;
  for await (const chunk of chunks) {
    const wanted = size + chunk.byteLength;
    // A chunk that nothing waits for is not copied.
    if (size === 0) held = chunk;
    else {
      if (wanted > held.byteLength) held = grown(held, wanted);
      held.set(chunk, size);
    }
    size = wanted;
    for (;;) {
      const ready = isEnveloped ? envelopesIn(held.subarray(0, size), bytesMax) : size > bytesMax ? size : 0;
      if (ready === 0) break;
      yield held.subarray(0, ready);
      held = held.subarray(ready, size);
      size -= ready;
    }
  }
  if (size > 0) yield held.subarray(0, size);
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
