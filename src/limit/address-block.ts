import { isIP } from "node:net";

/**
 * The part of an address that one customer of a provider has; an allowance is counted by it. An
 * IPv4 address counts whole. An IPv6 address counts by its first 64 bits: the customer who has one
 * address has the other 2^64 of its network too (RFC 6177, RFC 7934). An IPv4-mapped IPv6 address
 * (RFC 4291, 2.5.5.2) counts as the IPv4 address, because a socket that takes both shows the same
 * peer in either form. Texts that are no address count together, as "unknown".
 */
export function addressBlock(address: string): string {
  switch (isIP(address)) {
    case 4:
      return address;
    case 6:
      return blockOfIpv6(address);
    default:
      return "unknown";
  }
}

/**
 * The network that one site gets of its provider: the /48 of an IPv6 address (RFC 6177), which has
 * 65,536 blocks. Anything else is its own block.
 */
export function addressNetwork(address: string): string {
  const block = addressBlock(address);
  if (!block.endsWith("::/64")) return block;
  return `${block.split(":").slice(0, 3).join(":")}::/48`;
}

function blockOfIpv6(address: string): string {
  const groups = groupsOfIpv6(address.replace(/%.*$/, ""));
  const isMapped = groups[5] === 0xffff && groups.slice(0, 5).every((group) => group === 0);
  if (isMapped) {
    return groups
      .slice(6)
      .flatMap((group) => [group >> 8, group & 0xff])
      .join(".");
  }
  return `${groups
    .slice(0, 4)
    .map((group) => group.toString(16))
    .join(":")}::/64`;
}

/** The eight groups of a valid address, shortened or not. */
function groupsOfIpv6(address: string): number[] {
  const [before = "", after] = address.split("::");
  const head = parseGroups(before);
  if (after === undefined) return head;
  const tail = parseGroups(after);
  return [...head, ...Array<number>(8 - head.length - tail.length).fill(0), ...tail];
}

function parseGroups(text: string): number[] {
  if (text === "") return [];
  return text.split(":").flatMap((part) => {
    if (!part.includes(".")) return [Number.parseInt(part, 16)];
    const [a = 0, b = 0, c = 0, d = 0] = part.split(".").map(Number);
    return [(a << 8) | b, (c << 8) | d];
  });
}
