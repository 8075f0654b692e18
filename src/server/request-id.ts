const idBytes = 16;
const idCharacters = 36;
const poolIds = 256;

/**
 * Makes ids for requests that bring none: UUIDs of random bits (RFC 9562, section 5.4). They are drawn and written many
 * at once, because every request without an id of its own asks for one.
 */
export function createRequestIds(randomBytes: (bytes: number) => Uint8Array): () => string {
  let pool = "";
  let used = 0;
  return () => {
    if (used >= pool.length) {
      pool = uuidsOf(randomBytes(idBytes * poolIds));
      used = 0;
    }
    used += idCharacters;
    return pool.slice(used - idCharacters, used);
  };
}

/** One UUID of each 16 bytes, end to end. */
function uuidsOf(random: Uint8Array): string {
  const parts: string[] = [];
  for (let at = 0; at < random.length; at += idBytes) {
    const bytes = Buffer.from(random.subarray(at, at + idBytes));
    bytes[6] = 0x40 | ((bytes[6] ?? 0) & 0x0f); // Version 4,
    bytes[8] = 0x80 | ((bytes[8] ?? 0) & 0x3f); // in the variant of the RFC.
    const hex = bytes.toString("hex");
    parts.push(hex.slice(0, 8), "-", hex.slice(8, 12), "-", hex.slice(12, 16), "-", hex.slice(16, 20), "-");
    parts.push(hex.slice(20));
  }
  return parts.join("");
}
