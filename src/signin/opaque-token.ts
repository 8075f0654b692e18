import { createHash } from "node:crypto";
import type { RandomBytes } from "../keys/key-value.ts";

/** Long enough that nobody guesses one, so that a plain hash of it may be kept. */
const tokenBytes = 32;
const tokenForm = /^[A-Za-z0-9_-]{43}$/;

/** A new token of 256 random bits, base64url. */
export function newToken(randomBytes: RandomBytes): string {
  return Buffer.from(randomBytes(tokenBytes)).toString("base64url");
}

/** What is kept of a token: its SHA-256, base64url; undefined where the text has not a token's form. */
export function hashToken(token: string): string | undefined {
  return tokenForm.test(token) ? createHash("sha256").update(token).digest("base64url") : undefined;
}
