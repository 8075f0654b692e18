import { expect, test, vi } from "vitest";
import { clientAddress, isLoopback } from "#src/http/request-head.ts";

const address = (peer: string, forwardedFor: string | undefined, trustedHops: number) =>
  clientAddress(peer, { forwardedFor, trustedHops, onUnreadEntry: () => {} });

test("without a trusted proxy callers can't choose the address that they are counted under", () => {
  expect(address("192.0.2.1", "198.51.100.7", 0)).toBe("192.0.2.1");
});

test("with trusted proxies the entry that many from the right is the address", () => {
  const forwardedFor = "203.0.113.9, 198.51.100.7, 192.0.2.44";
  expect(address("10.0.0.1", forwardedFor, 1)).toBe("192.0.2.44");
  expect(address("10.0.0.1", forwardedFor, 2)).toBe("198.51.100.7");
  expect(address("10.0.0.1", forwardedFor, 3)).toBe("203.0.113.9");
});

test("with fewer entries than proxies the leftmost is the address, and without entries the peer's", () => {
  expect(address("10.0.0.1", "2001:db8::7", 3)).toBe("2001:db8::7");
  expect(address("10.0.0.1", undefined, 3)).toBe("10.0.0.1");
});

test.each([
  ...[
    "",
    " ",
    "unknown",
    "_hidden",
    "1.2.3",
    "1.2.3:80",
    "<script>",
    "a,",
    "fe80::1%any-text",
    "[fe80::1%any-text]:80",
  ],
  ...[
    "[198.51.100.7]:80",
    "[::1",
    "::1]:80",
    "[::1]80",
    "198.51.100.7:",
    "198.51.100.7:800000",
    '"198.51.100.7',
    "[]",
  ],
])("an entry that is no IP address is not trusted, and that is told: %j", (entry) => {
  const onUnreadEntry = vi.fn();
  expect(clientAddress("10.0.0.1", { forwardedFor: entry, trustedHops: 1, onUnreadEntry })).toBe("10.0.0.1");
  expect(onUnreadEntry).toHaveBeenCalledOnce();
});

test.each([
  ["198.51.100.7:51234", "198.51.100.7"],
  ["[2001:db8::7]", "2001:db8::7"],
  ["[2001:db8::7]:51234", "2001:db8::7"],
  ["[::ffff:198.51.100.7]:51234", "198.51.100.7"],
  ['"[2001:db8::7]:51234"', "2001:db8::7"],
  ['"198.51.100.7:51234"', "198.51.100.7"],
  ["2001:db8::7", "2001:db8::7"],
])("an entry with a port, brackets or quotes is the address in it: %s", (entry, expected) => {
  const onUnreadEntry = vi.fn();
  const forwardedFor = `203.0.113.9, ${entry}`;
  expect(clientAddress("10.0.0.1", { forwardedFor, trustedHops: 1, onUnreadEntry })).toBe(expected);
  expect(onUnreadEntry).not.toHaveBeenCalled();
});

test("one IPv4 client has one address, over IPv4 and IPv6 sockets", () => {
  expect(address("::ffff:192.0.2.1", undefined, 0)).toBe("192.0.2.1");
  expect(address("10.0.0.1", "::ffff:192.0.2.1", 1)).toBe("192.0.2.1");
  expect(address("::ffff:0:1", undefined, 0)).toBe("::ffff:0:1");
});

test("loopback is recognised under each of its addresses, and no other address is", () => {
  for (const own of ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"]) expect(isLoopback(own)).toBe(true);
  for (const other of ["128.0.0.1", "10.127.0.1", "::2", "127.evil", ""])
    expect(isLoopback(other)).toBe(false);
});
