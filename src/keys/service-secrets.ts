import { createHash, createHmac, hash } from "node:crypto";

/**
 * The service's secrets, newest first. They make key digests and id tags, so that somebody who can
 * write to the store still can't plant a key. To retire a secret, remove it once no key names its
 * version.
 */
export interface ServiceSecrets {
  /** The version of the newest secret, which makes new digests. */
  readonly newestVersion: string;
  readonly versions: readonly string[];
  /**
   * HMAC-SHA-256 (RFC 2104) of the text under the secret of this version; undefined where there is
   * no such secret.
   */
  digest(version: string, text: string): Buffer | undefined;
  /** The same under the newest secret. */
  digestNewest(text: string): Buffer;
}

/**
 * `secrets` are the operator's, newest first, each at least 32 bytes. Throws where there is none.
 */
export function createServiceSecrets(secrets: readonly Buffer[]): ServiceSecrets {
  const hmacs = new Map(secrets.map((secret) => [versionOf(secret), createHmacSha256(secret)]));
  const [newest] = hmacs;
  if (!newest) throw new Error("At least one service secret is needed: set KEYRUN_SECRET.");
  const [newestVersion, digestNewest] = newest;
  return {
    newestVersion,
    versions: [...hmacs.keys()],
    digest: (version, text) => hmacs.get(version)?.(text),
    digestNewest,
  };
}

/**
 * The first 8 hex digits of a digest of the secret. They name the secret in records and reveal
 * nothing of it.
 */
function versionOf(secret: Buffer): string {
  return createHash("sha256").update("keyrun-secret-version:").update(secret).digest("hex").slice(0, 8);
}

const blockBytes = 64;
const digestBytes = 32;
/** Longer texts take the slower way; no text on the path of a request is longer. */
const textCharactersMax = 128;
const utf8BytesMax = 3; // For each UTF-16 unit.

/**
 * Makes HMAC-SHA-256 (RFC 2104) under one secret, of texts in UTF-8:
 * `H(secret ⊕ opad, H(secret ⊕ ipad, text))`.
 *
 * Node's own `Hmac` creates a C++ object for each text. Making it costs twice as much as the two
 * hashes, and collecting it costs that again; every request with a key needs one.
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
    // A view is an object too. Texts of one kind are equally long, so the last view often fits.
    if (filled.length !== length) filled = inner.subarray(0, length);
    // A one-shot hash returns a string far more quickly than a buffer. "binary" is node's other
    // name for latin1.
    outer.write(hash("sha256", filled, "binary"), blockBytes, "latin1");
    // The text may be a key's value, which must not stay in memory.
    inner.fill(0, blockBytes, length);
    return Buffer.from(hash("sha256", outer, "binary"), "latin1");
  };
}
