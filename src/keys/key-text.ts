import { crc32 } from "node:zlib";
import { encodeBase62 } from "../base/base-encoding.ts";

/** Characters of the parts of a key's full value, `<prefix>_<id>.<random><checksum>`. */
export const keyParts = { id: 24, random: 43, checksum: 6 } as const;

/**
 * What everybody can see of a key's full value without the service's secrets: so leaked keys are
 * found offline.
 */
export interface KeyText {
  /** How many characters a value has. */
  readonly characters: number;
  /** A regular expression of the characters of a value, without anchors and checksum. */
  readonly pattern: string;
  /** Whether the text is a whole value with the right checksum: neither mistyped nor cut. */
  isWhole(value: string): boolean;
}

/** `prefix` is the one of the settings. */
export function createKeyText(prefix: string): KeyText {
  const secret = keyParts.random + keyParts.checksum;
  const characters = prefix.length + 1 + keyParts.id + 1 + secret;
  const pattern = `${prefix}_[0-9a-hjkmnp-tv-z]{${keyParts.id}}\\.[0-9A-Za-z]{${secret}}`;
  const form = new RegExp(`^${pattern}$`);
  return {
    characters,
    pattern,
    isWhole(value) {
      if (value.length !== characters || !form.test(value)) return false;
      return checksumOf(value.slice(0, -keyParts.checksum)) === value.slice(-keyParts.checksum);
    },
  };
}

/** CRC-32/ISO-HDLC over the text, in base62. */
export function checksumOf(text: string): string {
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc32(text));
  return encodeBase62(sum, keyParts.checksum);
}
