/**
 * Ids for requests and runs, drawn many at once, and the digits that ids and keys are written in.
 */

/** `bytes` random bytes from a cryptographically secure source. */
export type RandomBytes = (bytes: number) => Uint8Array;

const idBytes = 16;
const idCharacters = 36;

/** Makes ids for requests that come without one: random UUIDs (RFC 9562, section 5.4). */
export function createRequestIds(randomBytes: RandomBytes): () => string {
  return createIdPool(idCharacters, (ids) => uuidsOf(randomBytes(idBytes * ids)));
}

/** A UUID (8-4-4-4-12 hexadecimal digits) from every 16 bytes, joined without a separator. */
function uuidsOf(random: Uint8Array): Buffer {
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
  return codes;
}

const hexDigits = "0123456789abcdef";
const dash = 0x2d;

const runIdBytes = 15; // 120 bits: 24 characters.
const runIdPrefix = "run_";
const runIdCharacters = runIdPrefix.length + 24;

/** Makes ids like `run_9pm5cn647f9btdqa6230593t`. */
export function createRunIds(randomBytes: RandomBytes): () => string {
  return createIdPool(runIdCharacters, (ids) => {
    const random = encodeCrockford(randomBytes(runIdBytes * ids));
    return Buffer.from(random.replace(/.{24}/g, `${runIdPrefix}$&`), "latin1");
  });
}

const idsAtOnce = 256;

/**
 * Returns a function that gives out ids of `characters` each. `draw` makes many ids and joins them:
 * drawing random bytes for one id at a time is slow, and every request needs ids. Each id is read
 * from bytes, and so is a string by itself. An id that is a part of a longer string, or two parts,
 * makes `JSON.stringify` of its whole object many times slower.
 */
function createIdPool(characters: number, draw: (ids: number) => Buffer): () => string {
  let pool: Buffer = Buffer.alloc(0);
  let used = 0;
  return () => {
    if (used >= pool.length) {
      pool = draw(idsAtOnce);
      used = 0;
    }
    used += characters;
    return pool.toString("latin1", used - characters, used);
  };
}

const base62Digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const crockfordDigits = "0123456789abcdefghjkmnpqrstvwxyz";

/** The bytes as a big-endian number in base62 (`0-9A-Za-z`), padded left with `0` to `length`. */
export function encodeBase62(bytes: Uint8Array, length: number): string {
  let number = BigInt(`0x${Buffer.from(bytes).toString("hex")}`);
  let text = "";
  for (; number > 0n; number /= 62n) text = base62Digits.charAt(Number(number % 62n)) + text;
  return text.padStart(length, "0");
}

/** The bytes in lower-case Crockford base32, five bits a character. Takes groups of 5 bytes. */
export function encodeCrockford(bytes: Uint8Array): string {
  // A buffer is faster than `+=`: V8 would build a tree of strings, and flatten it when it is read.
  const codes = Buffer.alloc((bytes.length / 5) * 8);
  for (let at = 0, to = 0; at < bytes.length; at += 5, to += 8) {
    const middle = byteAt(bytes, at + 2);
    writeCrockford(codes, to, (byteAt(bytes, at) << 12) | (byteAt(bytes, at + 1) << 4) | (middle >> 4));
    writeCrockford(
      codes,
      to + 4,
      ((middle & 15) << 16) | (byteAt(bytes, at + 3) << 8) | byteAt(bytes, at + 4),
    );
  }
  return codes.toString("latin1");
}

/** Twenty bits as four characters. */
function writeCrockford(codes: Buffer, at: number, bits: number): void {
  codes[at] = crockfordDigits.charCodeAt(bits >> 15);
  codes[at + 1] = crockfordDigits.charCodeAt((bits >> 10) & 31);
  codes[at + 2] = crockfordDigits.charCodeAt((bits >> 5) & 31);
  codes[at + 3] = crockfordDigits.charCodeAt(bits & 31);
}

function byteAt(bytes: Uint8Array, at: number): number {
  return bytes[at] ?? 0;
}
