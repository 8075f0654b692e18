import { createIdPool } from "./id-pool.ts";
import type { RandomBytes } from "./random-bytes.ts";

const idBytes = 16;
const idCharacters = 36;

/** Makes ids for requests that come without one: random UUIDs (RFC 9562, section 5.4). */
export function createRequestIds(randomBytes: RandomBytes): () => string {
  return createIdPool(idCharacters, (ids) => uuidsOf(randomBytes(idBytes * ids)));
}

/** A UUID (8-4-4-4-12 hexadecimal digits) from every 16 bytes, joined without a separator. */
function uuidsOf(random: Uint8Array): string {
  const codes = Buffer.alloc((random.length / idBytes) * idCharacters);
  let length = 0;
  for (let at = 0; at < random.length; at++) {
    const index = at % idBytes;
    const byte = random[at] ?? 0;
    if (index === 4 || index === 6 || index === 8 || index === 10) codes[length++] = dash;
    let octet = byte;
    if (index === 6) octet = 0x40 | (byte & 0x0f); // Version 4,
    if (index === 8) octet = 0x80 | (byte & 0x3f); // in the variant of the RFC.
    codes[length++] = hexDigits.charCodeAt(octet >> 4);
    codes[length++] = hexDigits.charCodeAt(octet & 0x0f);
  }
  return codes.toString("latin1");
}

const hexDigits = "0123456789abcdef";
const dash = 0x2d;
