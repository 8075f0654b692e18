import { expect, test } from "vitest";
import { addressBlock, addressNetwork } from "#src/limit/address-block.ts";

test("an IPv4 address stands for itself", () => {
  expect(addressBlock("192.0.2.7")).toBe("192.0.2.7");
});

test("an IPv4 peer is the same in every form in which an IPv6 socket shows it", () => {
  for (const form of ["::ffff:192.0.2.7", "::FFFF:c000:207", "0:0:0:0:0:ffff:c000:0207"]) {
    expect(addressBlock(form)).toBe("192.0.2.7");
  }
});

test("IPv6 addresses of one /64 count as one, however they are written, and other /64s count apart", () => {
  const block = "2001:db8:0:1::/64";
  expect(addressBlock("2001:db8:0:1::")).toBe(block);
  expect(addressBlock("2001:0DB8:0000:0001:ffff:ffff:ffff:ffff")).toBe(block);
  expect(addressBlock("2001:db8::1:0:0:192.0.2.7")).toBe(block);
  expect(addressBlock("2001:db8:0:2::1")).toBe("2001:db8:0:2::/64");
});

test("shortened addresses get their zeros in the right place", () => {
  expect(addressBlock("::1")).toBe("0:0:0:0::/64");
  expect(addressBlock("1::")).toBe("1:0:0:0::/64");
  expect(addressBlock("1:2:3:4:5:6:7::")).toBe("1:2:3:4::/64");
  expect(addressBlock("fe80::1%eth0")).toBe("fe80:0:0:0::/64");
  // The mapped prefix counts only in its own place.
  expect(addressBlock("1::ffff:c000:207")).toBe("1:0:0:0::/64");
  expect(addressBlock("::ffff:207")).toBe("0:0:0:0::/64");
});

test("all texts that are no address share one block, so inventing them gives no new allowance", () => {
  for (const text of ["", "unknown", "1.2.3", "evil-1", "::ffff:1.2.3.999"]) {
    expect(addressBlock(text)).toBe("unknown");
  }
});

test("the network of an IPv6 address is its /48, and an IPv4 address is its own", () => {
  expect(addressNetwork("2001:db8:1:2::1")).toBe("2001:db8:1::/48");
  expect(addressNetwork("2001:db8:1:ffff::1")).toBe("2001:db8:1::/48");
  expect(addressNetwork("2001:db8:2:2::1")).toBe("2001:db8:2::/48");
  for (const form of ["192.0.2.7", "::ffff:192.0.2.7"]) expect(addressNetwork(form)).toBe("192.0.2.7");
  expect(addressNetwork("evil-1")).toBe("unknown");
});
