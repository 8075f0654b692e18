import { expect, test } from "vitest";
import { clientAddress, isLoopback } from "#src/http/request-head.ts";

const address = (peer: string, forwardedFor: string | undefined, trustedHops: number) =>
  clientAddress(peer, { forwardedFor, trustedHops });

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

test.each(["", " ", "unknown", "1.2.3", "198.51.100.7:80", "<script>", "a,", "fe80::1%any-text"])(
  "an entry that is no IP address is not trusted: %j",
  (entry) => {
    expect(address("10.0.0.1", entry, 1)).toBe("10.0.0.1");
  },
);

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
