import { hash, timingSafeEqual } from "node:crypto";
import type { KeyEvidence } from "../auth/key-evidence.ts";
import type { ServiceSecrets } from "./service-secrets.ts";

/** Which value a key's evidence has proven before: the same key comes again and again. */
export interface ProvenValues {
  /** Whether exactly this evidence has proven this value. Takes alike where it has not, or there is none. */
  has(evidence: KeyEvidence | null | undefined, value: string): boolean;
  /** To be called once the evidence's digest matched. */
  add(evidence: KeyEvidence, value: string): void;
}

/**
 * Remembers a value as SHA-256 over a salt and it: one hash, where its HMAC is two. The salt is drawn from the service
 * secret, so the hash tells no more than the digest that lies beside it, and it is never stored. It is gone with its
 * evidence: what a revocation or a lifetime has voided must be proven anew.
 */
export function createProvenValues(secrets: ServiceSecrets): ProvenValues {
  const salt = secrets.digest(secrets.newestVersion, "keyrun-proven-value:")?.toString("base64url");
  if (salt === undefined) throw new Error("The newest service secret is gone.");
  const hashOf = (value: string) => hash("sha256", salt + value);
  const proven = new WeakMap<KeyEvidence, Buffer>();
  const presented = Buffer.alloc(hashCharacters);

  return {
    has(evidence, value) {
      presented.write(hashOf(value), "latin1");
      return timingSafeEqual(presented, (evidence && proven.get(evidence)) ?? noHash);
    },
    add: (evidence, value) => void proven.set(evidence, Buffer.from(hashOf(value), "latin1")),
  };
}

/** In hexadecimal, so that zeros are nobody's. */
const hashCharacters = 64;
const noHash = Buffer.alloc(hashCharacters);
