import { createHmac, hash } from "node:crypto";

const blockBytes = 64;
const digestBytes = 32;
/** Longer texts take the slower way: none on the path of a request is. */
const textCharactersMax = 128;
const utf8BytesMax = 3; // For each UTF-16 unit.

/**
 * Makes HMAC-SHA-256 (RFC 2104) under one secret, of texts in UTF-8: `H(secret ⊕ opad, H(secret ⊕ ipad, text))`.
 *
 * Node's own `Hmac` is an object of C++ for each text, which costs twice as much to make as the two hashes and then
 * again to collect; every request with a key makes one.
 */
export function createHmacSha256(secret: Buffer): (text: string) => Buffer {
  const key = secret.length > blockBytes ? Buffer.from(hash("sha256", secret, "hex"), "hex") : secret;
  const inner = Buffer.alloc(blockBytes + utf8BytesMax * textCharactersMax);
  const outer = Buffer.alloc(blockBytes + digestBytes);
  for (let at = 0; at < blockBytes; at++) {
    inner[at] = (key[at] ?? 0) ^ 0x36;
    outer[at] = (key[at] ?? 0) ^ 0x5c;
  }
  let filled = inner.subarray(0, blockBytes);

  return (text) => {
    if (text.length > textCharactersMax) return createHmac("sha256", secret).update(text).digest();
    const length = blockBytes + inner.write(text, blockBytes, "utf8");
    // A view is an object too; texts of one kind are equally long.
    if (filled.length !== length) filled = inner.subarray(0, length);
    // Bytes as a string of latin1, which node also calls binary: one-shot hashes are far quicker to answer with a string than with a buffer.
    outer.write(hash("sha256", filled, "binary"), blockBytes, "latin1");
    // The text may be a key's value, which stays nowhere.
    inner.fill(0, blockBytes, length);
    return Buffer.from(hash("sha256", outer, "binary"), "latin1");
  };
}
