import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { bounds } from "#src/bounds.ts";
import { createLocalLinks } from "#src/sign-in/local-links.ts";
import { screenAddress } from "#src/sign-in/screen-address.ts";
import { createManualClock } from "../harness/manual-clock.ts";

const address = screenAddress({ publicUrl: undefined, bound: { host: "::1", port: 8080 } });

function setUp() {
  const clock = createManualClock();
  const links = createLocalLinks({ clock, randomBytes, address: () => address });
  const codeOf = (url: string) => new URLSearchParams(new URL(url).hash.slice(1)).get("code") ?? "";
  return { clock, links, newCode: () => codeOf(links.create().url) };
}

test("a link has a code of 256 bits in its fragment, which browsers send to no server", () => {
  const { links, clock } = setUp();
  const { url, expireTimeMs } = links.create();
  expect(url).toMatch(/^http:\/\/\[::1\]:8080\/sign-in\/link#code=[A-Za-z0-9_-]{43}$/);
  expect(expireTimeMs).toBe(clock.unixMs() + 10 * 60_000);
});

test("a code works once, and another code does not", () => {
  const { links, newCode } = setUp();
  const [code, other] = [newCode(), newCode()];
  expect(links.redeem(`${code}x`)).toBe(false);
  expect(links.redeem("")).toBe(false);
  expect(links.redeem(code)).toBe(true);
  expect(links.redeem(code)).toBe(false);
  expect(links.redeem(other)).toBe(true);
});

test("a code works for 10 minutes, and a change of the wall clock does not change that", () => {
  const { links, newCode, clock } = setUp();
  const [first, second] = [newCode(), newCode()];
  clock.stepWall(3_600_000);
  clock.advance(bounds.localLinkMs - 1);
  expect(links.redeem(first)).toBe(true);
  clock.stepWall(-7_200_000);
  clock.advance(1);
  expect(links.redeem(second)).toBe(false);
});

test("one link above the bound makes the oldest invalid, and no other", () => {
  const { links, newCode } = setUp();
  const codes = Array.from({ length: bounds.localLinksMax + 1 }, newCode);
  expect(codes.map(links.redeem)).toEqual(codes.map((_, n) => n > 0));
});
