/**
 * The text of a key: how it is made, read and shown. What can be checked without the service's
 * secrets stands apart, so that leaked keys are found offline.
 */

import { timingSafeEqual } from "node:crypto";
import { crc32 } from "node:zlib";
import { encodeBase62, encodeCrockford, type RandomBytes } from "../base/ids.ts";
import type { ServiceSecrets } from "./service-secrets.ts";

const idRandomBytes = 10; // 80 bits: 16 characters.
const idRandomCharacters = 16;
const idTagBytes = 5; // 40 bits: 8 characters.
const secretRandomBytes = 32; // 256 bits: 43 characters of base62.

/**
 * The form of a key's full value: `<prefix>_<id>.<secret>`.
 *
 * `<id>`: 16 random characters of Crockford base32 and 8 of a truncated HMAC over them, so that an
 * invented id is refused without a read of the store. `<secret>`: 256 random bits in base62 and a
 * CRC-32/ISO-HDLC over all before it, so that a mistyped key is refused by its form, and a secret
 * scanner can tell a real key offline.
 */
export interface KeyForm {
  /** A new value and its id. */
  mint(randomBytes: RandomBytes): { readonly id: string; readonly value: string };
  /**
   * The id that the value would have if it is a key; undefined where its length or its separators
   * rule that out. Cheap.
   */
  idIn(value: string): string | undefined;
  /** Whether characters and checksum hold, which anybody can check. */
  isWhole(value: string): boolean;
  /** Whether the whole form holds: characters, checksum and the id's tag. */
  isWellFormed(value: string): boolean;
}

/**
 * `prefix` is the one of the settings. New ids are tagged under the newest secret. Values of
 * another kind have tags of their own: no id is one of both kinds.
 */
export function createKeyForm(prefix: string, secrets: ServiceSecrets, tagStart = "keyrun-key-id:"): KeyForm {
  const tags = createIdTags(secrets, tagStart);
  const idStart = prefix.length + 1;
  const dotAt = idStart + keyParts.id;
  const { characters, isWhole } = createKeyText(prefix);

  return {
    mint(randomBytes) {
      const random = encodeCrockford(randomBytes(idRandomBytes));
      const id = random + tags.newest(random);
      const unchecked = `${prefix}_${id}.${encodeBase62(randomBytes(secretRandomBytes), keyParts.random)}`;
      return { id, value: unchecked + checksumOf(unchecked) };
    },
    idIn(value) {
      if (value.length !== characters || value[dotAt] !== "." || value[idStart - 1] !== "_") return undefined;
      return value.slice(idStart, dotAt);
    },
    isWhole,
    isWellFormed: (value) => isWhole(value) && tags.has(value.slice(idStart, dotAt)),
  };
}

/** Whether the text has the form of a key's id. */
export function isKeyId(text: string): boolean {
  return /^[0-9a-hjkmnp-tv-z]{24}$/.test(text);
}

const redactedBegin = 8;

/**
 * The first 8 characters, an ellipsis and the last 4: enough to tell keys apart, too little to use.
 */
export function redactKeyValue(value: string): string {
  return `${value.slice(0, redactedBegin)}…${value.slice(-4)}`;
}

/**
 * False where the value was certainly made with another prefix. A redacted value may show only the
 * first characters of its prefix.
 */
export function mayHavePrefix(redactedValue: string, prefix: string): boolean {
  return redactedValue.startsWith(`${prefix}_`.slice(0, redactedBegin));
}

function createIdTags(secrets: ServiceSecrets, start: string) {
  function tagOf(version: string, random: string): string {
    const digest = secrets.digest(version, start + random);
    if (digest === undefined) throw new Error(`There is no service secret of version ${version}.`);
    return encodeCrockford(digest.subarray(0, idTagBytes));
  }
  return {
    newest: (random: string) => tagOf(secrets.newestVersion, random),
    /**
     * Tries the tag under each secret: an id stays well-formed as long as the secret that tagged it
     * is kept.
     */
    has(id: string): boolean {
      const random = id.slice(0, idRandomCharacters);
      const tag = Buffer.from(id.slice(idRandomCharacters));
      return secrets.versions.some((version) => timingSafeEqual(Buffer.from(tagOf(version, random)), tag));
    },
  };
}

/** Characters of the parts of a key's full value, `<prefix>_<id>.<random><checksum>`. */
const keyParts = { id: 24, random: 43, checksum: 6 } as const;

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
