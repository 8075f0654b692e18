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
  const fields = headers.map(([name, value]) => Buffer.concat([Buffer.of(0), literal(name), literal(value)]));
  return frame({ type: 1, flags: hasBody ? 0x4 : 0x5, stream }, Buffer.concat(fields));
}

/** DATA that does not end the stream. */
export function dataFrame(stream: number, text: string): Buffer {
  return frame({ type: 0, flags: 0, stream }, Buffer.from(text));
}

/** RST_STREAM, by default with CANCEL. */
export function cancelFrame(stream: number, code = 8): Buffer {
  return frame({ type: 3, flags: 0, stream }, Buffer.of(0, 0, 0, code));
}

function frame({ type, flags, stream }: { type: number; flags: number; stream: number }, payload: Buffer) {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.set([type, flags], 3);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

function literal(text: string): Buffer {
  if (text.length > 126) throw new Error("a length of more than one byte");
  return Buffer.concat([Buffer.of(text.length), Buffer.from(text, "latin1")]);
}
