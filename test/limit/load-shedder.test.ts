import { beforeEach, expect, test } from "vitest";
import { LoadShedder, loadShedderLimits } from "#src/limit/load-shedder.ts";
import { createManualClock, type ManualClock } from "../harness/manual-clock.ts";

const { intervalMs, intervalsAtOnceMax, servedMax, servedOfNetworkMax } = loadShedderLimits;

let clock: ManualClock;
let shedder: LoadShedder;
let changes: { isShedding: boolean; refused: number }[];

beforeEach(() => {
  clock = createManualClock();
  changes = [];
  shedder = new LoadShedder(clock, (change) => changes.push(change));
});

/** The loop stands still for so long. Then its timer fires. */
function stall(ms: number): void {
  clock.advance(ms);
  shedder.measure();
}

function onTime(ms: number): void {
  for (let passedMs = 0; passedMs < ms; passedMs += intervalMs) stall(intervalMs);
}

/** A stall that overloads the loop, and an interval on time after it. */
function overload(): void {
  stall(2_000);
  onTime(intervalMs);
}

/** How many of so many requests of the address, or of known services, are served. */
function servedOf(address: string | undefined, requests: number): number {
  return Array.from({ length: requests }, () => shedder.sheds(address)).filter((shed) => !shed).length;
}

const isShedding = () => servedOf("192.0.2.99", 10_000) < 10_000;

test("nothing is refused while the event loop is on time, however much comes", () => {
  onTime(1_000);
  expect(servedOf("192.0.2.1", 100_000)).toBe(100_000);
  expect(changes).toEqual([]);
});

test("after a stall of 2 s most is refused at once, until half a second on time", () => {
  stall(2_000);
  expect(servedOf("192.0.2.1", 10_000)).toBe(intervalsAtOnceMax * servedOfNetworkMax);
  onTime(intervalMs);
  for (let passedMs = intervalMs; passedMs < 500; passedMs += intervalMs) {
    expect(servedOf("192.0.2.1", 10_000)).toBe(servedOfNetworkMax);
    onTime(intervalMs);
  }
  expect(isShedding()).toBe(false);
});

test("one stall below a second, such as a garbage collection, refuses nothing", () => {
  for (const ms of [210, 500, 1_000]) {
    stall(ms);
    expect(isShedding()).toBe(false);
    onTime(500);
  }
});

test("a loop of which every turn takes 300 ms is overloaded after some seconds, and stays it", () => {
  const seen = Array.from({ length: 100 }, () => {
    stall(300);
    return isShedding();
  });
  expect(seen.indexOf(true)).toBe(4);
  expect(seen.slice(4).every(Boolean)).toBe(true);
});

test("turns that take no longer than 200 ms never overload it", () => {
  for (let turn = 0; turn < 200; turn += 1) stall(200);
  expect(isShedding()).toBe(false);
});

test("what passed before it began is not counted", async () => {
  clock.advance(5_000);
  const stop = shedder.watch();
  stall(intervalMs);
  expect(isShedding()).toBe(false);
  await stop();
});

test("an address that floods takes nothing from one that does not", () => {
  overload();
  expect(servedOf("192.0.2.1", 10_000)).toBe(servedOfNetworkMax);
  expect(servedOf("192.0.2.2", servedOfNetworkMax)).toBe(servedOfNetworkMax);
});

test("a late interval serves as much as the intervals that it stands for, up to a bound", () => {
  overload();
  stall(3 * intervalMs);
  expect(servedOf("192.0.2.1", 10_000)).toBe(3 * servedOfNetworkMax);
  stall(100 * intervalMs);
  expect(servedOf("192.0.2.1", 10_000)).toBe(intervalsAtOnceMax * servedOfNetworkMax);
  expect(servedOf(undefined, 10_000)).toBe(intervalsAtOnceMax * (servedMax - servedOfNetworkMax));
});

test("the holder of an IPv6 /48 counts as one address, however many of its addresses it uses", () => {
  overload();
  const served = Array.from({ length: 1_500 }, (_, at) => servedOf(`2001:db8:1:${at.toString(16)}::1`, 1));
  expect(served.reduce((sum, each) => sum + each, 0)).toBe(servedOfNetworkMax);
  expect(servedOf("2001:db8:2::1", 1)).toBe(1);
});

test("services that are known are served up to the bound for all, from one address", () => {
  overload();
  expect(servedOf("192.0.2.1", 1_000)).toBe(servedOfNetworkMax);
  expect(servedOf(undefined, 10_000)).toBe(servedMax - servedOfNetworkMax);
  expect(servedOf("192.0.2.2", 1)).toBe(0);
});

test("the beginning and the end of shedding are told once each, with how many were refused", () => {
  overload();
  servedOf("192.0.2.1", 100);
  onTime(1_000);
  const refused = 100 - servedOfNetworkMax;
  expect(changes).toEqual([
    { isShedding: true, refused: 0 },
    { isShedding: false, refused },
  ]);
});
