import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

const secret = randomBytes(32);

/** The key of the compared servers. They verify it as Keyrun does: an HMAC and a cached digest. */
export const apiKey = `svc_${"0".repeat(24)}.${randomBytes(36).toString("hex").slice(0, 49)}`;
const digests = new Map([[apiKey.slice(4, 28), hmac(apiKey)]]);

/** Whether the `Authorization` header holds the key. */
export function isAuthorized(authorization: string | undefined): boolean {
  const value = authorization?.startsWith("Bearer ") ? authorization.slice(7) : "";
  const digest = digests.get(value.slice(4, 28));
  return digest !== undefined && timingSafeEqual(hmac(value), digest);
}

/** More than the load sends. */
export const limitPerMinute = 10_000_000;

function hmac(value: string): Buffer {
  return createHmac("sha256", secret).update(value).digest();
}
