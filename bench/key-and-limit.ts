import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

const secret = randomBytes(32);

/** The key of the compared servers. They verify it as Keyrun does: an HMAC and a cached digest. */
export const apiKey = randomKey();
const digests = new Map([[apiKey.slice(4, 28), hmac(apiKey)]]);

/** Whether the `Authorization` header holds the key. */
export function isAuthorized(authorization: string | undefined): boolean {
  const value = authorization?.startsWith("Bearer ") ? authorization.slice(7) : "";
  const digest = digests.get(value.slice(4, 28));
  return digest !== undefined && timingSafeEqual(hmac(value), digest);
}

/** More than the load sends. */
export const limitPerMinute = 10_000_000;

/** A value of the length and form of Keyrun's. */
export function randomKey(): string {
  const hex = randomBytes(37).toString("hex");
  return `svc_${hex.slice(0, 24)}.${hex.slice(24, 73)}`;
}

function hmac(value: string): Buffer {
  return createHmac("sha256", secret).update(value).digest();
}
