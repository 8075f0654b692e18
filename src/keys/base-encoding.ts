const base62Digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const crockfordDigits = "0123456789abcdefghjkmnpqrstvwxyz";

/** The bytes as one big-endian number in base62 (`0-9A-Za-z`), left-padded with `0` to `length` characters. */
export function encodeBase62(bytes: Uint8Array, length: number): string {
  let number = BigInt(`0x${Buffer.from(bytes).toString("hex")}`);
  let text = "";
  for (; number > 0n; number /= 62n) text = base62Digits.charAt(Number(number % 62n)) + text;
  return text.padStart(length, "0");
}

/** The bytes in lower-case Crockford base32, five bits a character; a whole number of 5-byte groups. */
export function encodeCrockford(bytes: Uint8Array): string {
  // Into a buffer and not onto a string, which would be a tree of its characters until somebody reads it.
  const codes = Buffer.allocUnsafe((bytes.length / 5) * 8);
  let length = 0;
  let bits = 0;
  let held = 0;
  for (const byte of bytes) {
    held = (held << 8) | byte;
    for (bits += 8; bits >= 5; bits -= 5) {
      codes[length++] = crockfordDigits.charCodeAt((held >> (bits - 5)) & 31);
    }
    held &= (1 << bits) - 1;
  }
  return codes.toString("latin1", 0, length);
}
