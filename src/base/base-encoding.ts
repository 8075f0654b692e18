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
