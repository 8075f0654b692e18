import { createHash, timingSafeEqual } from "node:crypto";

/**
 * Makes the check of the internal services' token. Both sides are hashed first, so that the time
 * reveals no length.
 */
export function createServiceTokenCheck(serviceToken: string): (presented: string) => boolean {
  const expected = hash(serviceToken);
  return (presented) => timingSafeEqual(hash(presented), expected);
}

function hash(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
