import { createHash } from "node:crypto";
import type { RandomBytes } from "../base/random-bytes.ts";

/** Nobody can guess a token of this length, so it is safe to store its plain hash. */
const tokenBytes = 32;
const tokenForm = /^[A-Za-z0-9_-]{43}$/;

/** Makes a new token of 256 random bits, base64url, and the hash of it to store. */
export function newToken(randomBytes: RandomBytes): { readonly token: string; readonly hash: string } {
  const token = Buffer.from(randomBytes(tokenBytes)).toString("base64url");
  return { token, hash: hashOf(token) };
}

/**
 * Returns the SHA-256 of a token, base64url, which may be stored. Undefined if the text does not
 * have the form of a token.
 */
export function hashToken(token: string): string | undefined {
  return tokenForm.test(token) ? hashOf(token) : undefined;
}

function hashOf(token: string): string {
  return createHash("sha256").update(token).digest("base64url");
}
