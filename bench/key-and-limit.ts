import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

const secret = randomBytes(32);

/** The key that the compared servers take, and how they verify it: the same HMAC over a cached digest as Keyrun's. */
export const apiKey = `svc_${"0".repeat(24)}.${randomBytes(36).toString("hex").slice(0, 49)}`;
const digests = new Map([[apiKey.slice(4, 28), hmac(apiKey)]]);

/** Whether the `Authorization` header holds the key. */
export function isAuthorized(authorization: string | undefined): boolean {
  const value = authorization?.startsWith("Bearer ") ? authorization.slice(7) : "";
  const digest = digests.get(value.slice(4, 28));
  return digest !== undefined && timingSafeEqual(hmac(value), digest);
}

/** More than the load sends in a minute. */
export const limitPerMinute = 10_000_000;

function hmac(value: string): Buffer {
  return createHmac("sha256", secret).update(value).digest();
}
