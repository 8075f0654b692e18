import { isIP } from "node:net";

/**
 * The client's address: the peer's, or with `trustedHops` proxies in front the one that the outermost of them wrote
 * into `X-Forwarded-For`, which is that many entries from the right. Fewer entries mean that a proxy did not
 * write one: then the leftmost. What is no IP address is not believed, and the peer's is the answer.
 */
export function clientAddress(
  peer: string,
  { forwardedFor, trustedHops }: { forwardedFor: string | undefined; trustedHops: number },
): string {
  if (trustedHops === 0 || forwardedFor === undefined) return plainAddress(peer);
  const entries = forwardedFor.split(",");
  const claimed = entries[Math.max(0, entries.length - trustedHops)]?.trim() ?? "";
  return plainAddress(isIP(claimed) === 0 ? peer : claimed);
}

/** An IPv4 address that came over an IPv6 socket, as the IPv4 address that it is: one caller, one name. */
function plainAddress(address: string): string {
  return address.startsWith("::ffff:") && isIP(address.slice(7)) === 4 ? address.slice(7) : address;
}

export function isLoopback(address: string): boolean {
  const plain = plainAddress(address);
  return plain === "::1" || (plain.startsWith("127.") && isIP(plain) === 4);
}
