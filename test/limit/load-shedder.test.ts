import { beforeEach, expect, test } from "vitest";
import { LoadShedder, loadShedderLimits, loopDelayLimits } from "#src/limit/load-shedder.ts";
import { createManualClock, type ManualClock } from "../harness/manual-clock.ts";

const { lookMs, idleLookMs, looksMax } = loopDelayLimits;
const { servedPerLookMax, servedOfAddressPerLookMax, servedOfNetworkPerLookMax, looksAtOnceMax } =
  loadShedderLimits;

let clock: ManualClock;
let shedder: LoadShedder;
let changes: { isShedding: boolean; refused: number }[];

beforeEach(() => {
  clock = createManualClock();
  changes = [];
  dueMs = lookMs;
  shedder = new LoadShedder(clock, (change) => changes.push(change));
});

let dueMs: number;

function look(lateMs = 0): void {
  clock.advance(dueMs + lateMs);
  dueMs = shedder.look();
}

/** How many of so many requests of the address, or of known services, are served. */
function servedOf(address: string | undefined, requests: number): number {
  return Array.from({ length: requests }, () => shedder.sheds(address)).filter((shed) => !shed).length;
}

test("nothing is refused while the event loop is on time, however much comes", () => {
  look();
  expect(servedOf("192.0.2.1", 100_000)).toBe(100_000);
  expect(changes).toEqual([]);
});

test("from the first look after a stall of 2 s until half a second on time, most is refused", () => {
  look(2_000);
  const requests = 10_000;
  expect(servedOf("192.0.2.1", requests)).toBe(looksAtOnceMax * servedOfAddressPerLookMax);
  for (let count = 1; count < looksMax; count += 1) {
    look();
    expect(servedOf("192.0.2.1", requests)).toBe(servedOfAddressPerLookMax);
  }
  look();
  expect(servedOf("192.0.2.1", requests)).toBe(requests);
});

test("an address that floods takes nothing from one that does not", () => {
  look(2_000);
  for (let count = 1; count < looksMax; count += 1) {
    look();
    expect(servedOf("192.0.2.1", 10_000)).toBe(servedOfAddressPerLookMax);
    expect(servedOf("192.0.2.2", servedOfAddressPerLookMax)).toBe(servedOfAddressPerLookMax);
  }
});

test("a holder of an IPv6 network counts as one address, however many of its addresses it uses", () => {
  look(2_000);
  look();
  const served = Array.from({ length: 1_000 }, (_, at) => servedOf(`2001:db8:1:2::${at.toString(16)}`, 1));
  expect(served.reduce((sum, each) => sum + each, 0)).toBe(servedOfAddressPerLookMax);
  expect(servedOf("2001:db8:1:3::1", 1)).toBe(1);
});

test("the holder of an IPv6 /48 is served a few networks' share, and takes nothing from the others", () => {
  look(2_000);
  look();
  const served = Array.from({ length: 1_500 }, (_, at) => servedOf(`2001:db8:1:${at.toString(16)}::1`, 1));
  expect(served.reduce((sum, each) => sum + each, 0)).toBe(servedOfNetworkPerLookMax);
  expect(servedOf("2001:db8:2::1", 10)).toBe(servedOfAddressPerLookMax);
  expect(servedOf("192.0.2.1", 10)).toBe(servedOfAddressPerLookMax);
});

test("services that are known are served up to the bound for all, from one address", () => {
  look(2_000);
  look();
  expect(servedOf("192.0.2.1", 10)).toBe(servedOfAddressPerLookMax);
  expect(servedOf(undefined, 1_000)).toBe(servedPerLookMax - servedOfAddressPerLookMax);
  expect(servedOf("192.0.2.2", 1)).toBe(0);
});

test("many addresses together are served no more than the bound for all", () => {
  look(2_000);
  look();
  const served = Array.from({ length: 1_000 }, (_, at) => servedOf(`198.51.${at >> 8}.${at & 255}`, 10));
  expect(served.reduce((sum, each) => sum + each, 0)).toBe(servedPerLookMax);
});

test("the beginning and the end of shedding are told once each, with how many were refused", () => {
  look(2_000);
  look();
  servedOf("192.0.2.1", 10);
  for (let count = 1; count < looksMax; count += 1) look();
  look();
  const refused = 10 - servedOfAddressPerLookMax;
  expect(changes).toEqual([
    { isShedding: true, refused: 0 },
    { isShedding: false, refused },
  ]);
});

test("an idle loop is looked at seldom, and one that is asked or overloaded is looked at often", () => {
  clock.advance(lookMs);
  expect(shedder.look()).toBe(idleLookMs);
  clock.advance(idleLookMs);
  shedder.sheds("192.0.2.1");
  expect(shedder.look()).toBe(lookMs);
  clock.advance(lookMs);
  expect(shedder.look()).toBe(idleLookMs);
  // It was due after so long, and came on time: nothing was late.
  expect(shedder.p99Ms()).toBe(0);
  clock.advance(idleLookMs + 2_000);
  expect(shedder.look()).toBe(lookMs);
  expect(shedder.p99Ms()).toBeGreaterThan(1_000);
});
