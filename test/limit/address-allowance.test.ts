import { expect, test } from "vitest";
import { createAddressAllowance } from "#src/limit/address-allowance.ts";
import { createManualClock } from "../harness/manual-clock.ts";

const address = "192.0.2.7";
const unavailable = expect.objectContaining({ reason: "UNAVAILABLE", retryAfterMs: 1_000 });

function createTestAllowance(options: { waitMsMax?: number; waitersMax?: number; logsMax?: number } = {}) {
  const clock = createManualClock();
  const allowance = createAddressAllowance({
    clock,
    windowMs: 60_000,
    lookupsMax: 3,
    logsMax: 10,
    waitMsMax: 30_000,
    waitersMax: 100,
    ...options,
  });
  const isValid = (found: string) => found === "valid";
  let running = 0;
  let runningMax = 0;
  /** A look-up that finds `found`, or what its promise resolves to. */
  async function lookUp(found: string | Promise<string>, from = address) {
    const load = async () => {
      runningMax = Math.max(runningMax, ++running);
      try {
        return await found;
      } finally {
        running--;
      }
    };
    return allowance.lookUp(from, load, isValid);
  }
  async function useUp(from = address) {
    for (let n = 0; n < 3; n++) await lookUp("none", from);
  }
  return { clock, allowance, lookUp, useUp, running: () => running, runningMax: () => runningMax };
}

test("a look-up that finds a valid key spends nothing, and one that does not spends one", async () => {
  const { allowance, lookUp } = createTestAllowance();
  expect(await lookUp("valid")).toBe("valid");
  expect(allowance.snapshot(address)).toMatchObject({ accepted: true, limit: 3, remaining: 3 });
  expect(await lookUp("none")).toBe("none");
  expect(allowance.snapshot(address)).toMatchObject({ accepted: true, limit: 3, remaining: 2 });
});

test("a look-up that failed spends nothing and rejects with its own error", async () => {
  const { allowance, lookUp } = createTestAllowance();
  await expect(lookUp(Promise.reject(new Error("store")))).rejects.toThrow("store");
  expect(allowance.snapshot(address).remaining).toBe(3);
});

test("below its bound an address's look-ups run together, as many as it has left", async () => {
  const { lookUp, runningMax } = createTestAllowance();
  const { promise: held, resolve: release } = Promise.withResolvers<string>();
  const found = Array.from({ length: 10 }, () => lookUp(held));
  expect(runningMax()).toBe(3);
  release("valid");
  expect(await Promise.all(found)).toEqual(Array(10).fill("valid"));
  expect(runningMax()).toBe(3);
});

test("at its bound an address gets one look-up at a time, and is never refused for their number", async () => {
  const { allowance, lookUp, useUp, runningMax } = createTestAllowance();
  await useUp();
  const found = Array.from({ length: 10 }, (_, n) => lookUp(n === 5 ? "valid" : "none"));
  expect(await Promise.all(found)).toEqual(found.map((_, n) => (n === 5 ? "valid" : "none")));
  expect(runningMax()).toBe(1);
  expect(allowance.snapshot(address)).toMatchObject({ accepted: true, remaining: 0, retryAfterMs: 0 });
});

test("concurrent look-ups spend no more than the bound before they run one at a time", async () => {
  const { lookUp, runningMax } = createTestAllowance();
  await lookUp("none");
  await Promise.all(Array.from({ length: 10 }, () => lookUp("none")));
  expect(runningMax()).toBe(2);
});

test("a look-up that waits too long at the bound is refused with UNAVAILABLE, and other addresses are not affected", async () => {
  const { lookUp, useUp } = createTestAllowance({ waitMsMax: 5 });
  await useUp();
  const { promise: held, resolve: release } = Promise.withResolvers<string>();
  const slow = lookUp(held);
  await expect(lookUp("valid")).rejects.toEqual(unavailable);
  expect(await lookUp("valid", "192.0.2.8")).toBe("valid");
  release("valid");
  expect(await slow).toBe("valid");
  expect(await lookUp("valid")).toBe("valid");
});

test("10,000 look-ups of one valid key at once all succeed, because one read serves them all", async () => {
  const { lookUp } = createTestAllowance({ waitersMax: 10_000 });
  const { promise: read, resolve: arrive } = Promise.withResolvers<string>();
  const herd = Array.from({ length: 10_000 }, () => lookUp(read));
  arrive("valid");
  expect(new Set(await Promise.all(herd))).toEqual(new Set(["valid"]));
});

test("no more look-ups than the bound wait at once, whatever their addresses", async () => {
  const { lookUp, useUp } = createTestAllowance({ waitersMax: 1 });
  const other = "192.0.2.8";
  await useUp();
  await useUp(other);
  const { promise: held, resolve: release } = Promise.withResolvers<string>();
  const running = [lookUp(held), lookUp(held, other), lookUp(held)];
  await expect(lookUp("valid", other)).rejects.toEqual(unavailable);
  release("valid");
  expect(await Promise.all(running)).toEqual(["valid", "valid", "valid"]);
});

test("the allowance is free again when the look-ups that spent it are a window old", async () => {
  const { allowance, clock, lookUp, useUp, runningMax } = createTestAllowance();
  await useUp();
  clock.advance(59_999);
  expect(allowance.snapshot(address).remaining).toBe(0);
  clock.advance(1);
  expect(allowance.snapshot(address).remaining).toBe(3);
  await Promise.all([lookUp("none"), lookUp("none"), lookUp("none")]);
  expect(runningMax()).toBe(3);
});

test("neighbours of one IPv6 network share an allowance", async () => {
  const { allowance, lookUp } = createTestAllowance();
  await lookUp("none", "2001:db8::1");
  expect(allowance.snapshot("2001:db8::2").remaining).toBe(2);
  expect(allowance.snapshot("2001:db8:0:1::1").remaining).toBe(3);
});

test("past the bound of addresses the one idle longest is forgotten, and the new address is served", async () => {
  const { allowance, lookUp } = createTestAllowance({ logsMax: 2 });
  for (const from of ["192.0.2.1", "192.0.2.2", "192.0.2.3"]) await lookUp("none", from);
  expect(allowance.snapshot("192.0.2.1").remaining).toBe(3);
  expect(allowance.snapshot("192.0.2.2").remaining).toBe(2);
  expect(allowance.snapshot("192.0.2.3").remaining).toBe(2);
});

test("after two look-ups reached the bound together they run one at a time, whenever the next ones come", async () => {
  for (let moments = 0; moments < 20; moments++) {
    const { lookUp, running } = createTestAllowance();
    await lookUp("none");
    const first = Promise.withResolvers<string>();
    const next = Promise.withResolvers<string>();
    const found = [lookUp(first.promise), lookUp(first.promise)];
    first.resolve("none");
    for (let moment = 0; moment < moments; moment++) await null;
    found.push(lookUp(next.promise));
    // Waits until no look-up can go further.
    await new Promise((resolve) => setImmediate(resolve));
    found.push(lookUp(next.promise));
    expect(running()).toBe(1);
    next.resolve("valid");
    expect(await Promise.all(found)).toEqual(["none", "none", "valid", "valid"]);
  }
});

test("an address with nothing running costs only its log", async () => {
  const { allowance, lookUp } = createTestAllowance();
  const { promise: held, resolve: release } = Promise.withResolvers<string>();
  const found = Array.from({ length: 4 }, () => lookUp(held));
  expect(allowance.active()).toBe(1);
  expect(allowance.snapshot(address).remaining).toBe(3);
  release("none");
  await Promise.all(found);
  expect(allowance.active()).toBe(0);
  expect(allowance.snapshot(address).remaining).toBe(0);
});

test("at its bound an address stays one at a time while look-ups come, end and come again", async () => {
  const { lookUp, useUp, runningMax } = createTestAllowance();
  await useUp();
  const rounds = Array.from({ length: 5 }, async () => {
    for (let n = 0; n < 20; n++) await lookUp("none");
  });
  await Promise.all(rounds);
  expect(runningMax()).toBe(1);
});
