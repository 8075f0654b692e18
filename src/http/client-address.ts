import { isIP } from "node:net";

/**
 * Returns the client's address. Without trusted proxies it is the peer's. With `trustedHops`
 * proxies in front it is the `X-Forwarded-For` entry that the outermost of them wrote: the entry
 * that many from the right. If there are fewer entries, it is the leftmost. An entry that is not an
 * IP address is not trusted, and the peer's address is returned. So is one with a zone, which may
 * hold any text.
 */
export function clientAddress(
  peer: string,
  { forwardedFor, trustedHops }: { forwardedFor: string | undefined; trustedHops: number },
): string {
  if (trustedHops === 0 || forwardedFor === undefined) return plainAddress(peer);
  const entries = forwardedFor.split(",");
  const claimed = entries[Math.max(0, entries.length - trustedHops)]?.trim() ?? "";
  return plainAddress(isIP(claimed) === 0 || claimed.includes("%") ? peer : claimed);
}

/**
 * Returns an IPv4 address that came over an IPv6 socket in its IPv4 form, so that one client always
 * has the same address.
 */
function plainAddress(address: string): string {
  return address.startsWith("::ffff:") && isIP(address.slice(7)) === 4 ? address.slice(7) : address;
}

export function isLoopback(address: string): boolean {
  const plain = plainAddress(address);
  return plain === "::1" || (plain.startsWith("127.") && isIP(plain) === 4);
}
