import { hash, timingSafeEqual } from "node:crypto";
import type { ServiceSecrets } from "./service-secrets.ts";

/**
 * The values that matched the evidence of a key or a service token before. The same one comes again
 * and again, and this makes checking it again cheaper.
 */
export interface ProvenValues {
  /**
   * Whether exactly this evidence has proven this value. Takes the same time where it has not, or
   * where there is no evidence.
   */
  has(evidence: object | null | undefined, value: string): boolean;
  /** Call it once the evidence's digest matched. */
  add(evidence: object, value: string): void;
}

/**
 * Remembers a value as SHA-256 over a salt and the value: one hash, where its HMAC takes two. The
 * salt is made from the service secret, so the hash reveals no more than the digest beside it. The
 * salt is never stored. An entry lives only as long as its evidence: after a revocation, or when
 * the evidence expires, the value must be proven anew.
 */
export function createProvenValues(secrets: ServiceSecrets): ProvenValues {
  const salt = secrets.digestNewest("keyrun-proven-value:").toString("base64url");
  const hashOf = (value: string) => hash("sha256", salt + value);
  const proven = new WeakMap<object, Buffer>();
  const presented = Buffer.alloc(hashCharacters);

  return {
    has(evidence, value) {
      presented.write(hashOf(value), "latin1");
      return timingSafeEqual(presented, (evidence && proven.get(evidence)) ?? noHash);
    },
    add: (evidence, value) => void proven.set(evidence, Buffer.from(hashOf(value), "latin1")),
  };
}

/** Hashes are hexadecimal text, so zero bytes match no hash. */
const hashCharacters = 64;
const noHash = Buffer.alloc(hashCharacters);
