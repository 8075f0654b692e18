/** The start of a connection: the preface and empty SETTINGS (RFC 9113, section 3.4). */
export const h2Opening = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", "latin1");

/**
 * HEADERS of a request, by default without a body. Fields are literals without indexing (RFC 7541,
 * section 6.2.2).
 */
export function headersFrame(
  stream: number,
  headers: readonly (readonly [string, string])[],
  { hasBody = false } = {},
): Buffer {
  return frame({ type: frameTypes.headers, flags: hasBody ? 0x4 : 0x5, stream }, fieldBlock(headers));
}

/** The fields as literals without indexing. */
export function fieldBlock(headers: readonly (readonly [string, string])[]): Buffer {
  return Buffer.concat(
    headers.map(([name, value]) => Buffer.concat([Buffer.of(0), literal(name), literal(value)])),
  );
}

/** DATA that does not end the stream. */
export function dataFrame(stream: number, text: string): Buffer {
  return frame({ type: frameTypes.data, flags: 0, stream }, Buffer.from(text));
}

/** RST_STREAM, by default with CANCEL. */
export function cancelFrame(stream: number, code = 8): Buffer {
  return frame({ type: frameTypes.resetStream, flags: 0, stream }, Buffer.of(0, 0, 0, code));
}

/** RFC 9113, section 6. */
export const frameTypes = {
  data: 0,
  headers: 1,
  priority: 2,
  resetStream: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

export interface FrameHead {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
}

export function frame({ type, flags, stream }: FrameHead, payload: Uint8Array = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.set([type, flags], 3);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

export interface ReceivedFrame extends FrameHead {
  readonly payload: Buffer;
}

/** The whole frames that a server has sent, in order. */
export function framesIn(heard: string): ReceivedFrame[] {
  const bytes = Buffer.from(heard, "latin1");
  const frames: ReceivedFrame[] = [];
  for (let at = 0; at + 9 <= bytes.length; ) {
    const end = at + 9 + bytes.readUIntBE(at, 3);
    if (end > bytes.length) break;
    const [type = 0, flags = 0] = bytes.subarray(at + 3, at + 5);
    frames.push({ type, flags, stream: bytes.readUInt32BE(at + 5), payload: bytes.subarray(at + 9, end) });
    at = end;
  }
  return frames;
}

/** A string of HPACK without Huffman's code: its length, with a prefix of 7 bits, and its bytes. */
export function literal(text: string): Buffer {
  return Buffer.concat([prefixed(text.length, { bits: 7 }), Buffer.from(text, "latin1")]);
}

/** An integer of HPACK (RFC 7541, section 5.1). */
function prefixed(value: number, { bits }: { bits: number }): Buffer {
  const max = 2 ** bits - 1;
  if (value < max) return Buffer.of(value);
  const bytes = [max];
  let rest = value - max;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  return Buffer.from([...bytes, rest]);
}
