/** What a client sends first: the preface and empty SETTINGS (RFC 9113, section 3.4). */
export const h2Opening = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", "latin1");

/** HEADERS that end their stream's request, each field a literal without indexing (RFC 7541, section 6.2.2). */
export function headersFrame(stream: number, headers: readonly (readonly [string, string])[]): Buffer {
  const fields = headers.map(([name, value]) => Buffer.concat([Buffer.of(0), literal(name), literal(value)]));
  return frame({ type: 1, flags: 0x5, stream }, Buffer.concat(fields));
}

/** RST_STREAM with CANCEL. */
export function cancelFrame(stream: number): Buffer {
  return frame({ type: 3, flags: 0, stream }, Buffer.of(0, 0, 0, 8));
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
