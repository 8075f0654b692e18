import { afterAll, expect, test } from "vitest";
import { keepWindow, takeUpWindow } from "#src/app/kept-window.ts";
import { systemClock } from "#src/base/clock.ts";
import { createLimiter } from "#src/limit/limiter.ts";
import { type SavedWindow, writeWindow } from "#src/limit/saved-window.ts";
import { createLog } from "#src/log/log.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

const folders = createTempFolders();
afterAll(() => folders.remove());

async function openParts() {
  const lines: { level: string; msg: string }[] = [];
  const stores = await openSqliteStores({ dataDir: folders.create() });
  const newLimiter = () => createLimiter({ clock: systemClock, windowMs: 60_000, logsMax: 1_000 });
  const log = createLog({ level: "debug", destination: { write: (line) => lines.push(JSON.parse(line)) } });
  const parts = { limiter: newLimiter(), store: stores.window, log };
  return { parts, stores, lines, next: () => ({ ...parts, limiter: newLimiter() }) };
}

test("what a limiter counted is taken up by the next one, once", async () => {
  const { parts, stores, lines, next } = await openParts();
  parts.limiter.spend("acme", 3, 2);
  await keepWindow(parts);
  const [second, third] = [next(), next()];
  await takeUpWindow(second);
  expect(second.limiter.look("acme", 3).remaining).toBe(1);
  await takeUpWindow(third);
  expect(third.limiter.look("acme", 3).remaining).toBe(3);
  expect(lines).toEqual([]);
  await stores.close();
});

test("a damaged window is one warning, every limit counts anew, and the next start finds it gone", async () => {
  const { parts, stores, lines } = await openParts();
  await stores.window.keep(['{"savedUnixMs":1,', "{}"]);
  await takeUpWindow(parts);
  expect(parts.limiter.spend("acme", 1).accepted).toBe(true);
  expect(lines).toMatchObject([
    { level: "warn", msg: expect.stringContaining("could not be read: every limit counts anew") },
  ]);
  expect(await stores.window.read()).toEqual([]);
  await stores.close();
});

test("a store that can't keep or give the window stops neither the stop nor the start", async () => {
  const { parts, stores, lines } = await openParts();
  await stores.close();
  await takeUpWindow(parts);
  await keepWindow(parts);
  expect(lines.map(({ level }) => level)).toEqual(["warn", "warn"]);
});

test("a window that has no room is kept as far as it has, and a warning says how many teams are left out", async () => {
  const { parts, stores, lines, next } = await openParts();
  // Each request at a time of its own: the log of one team fills more than half of a page.
  let nowMs = 0;
  const clock = { monotonicMs: () => (nowMs += 1 / 1024), unixMs: systemClock.unixMs };
  const limiter = createLimiter({ clock, windowMs: 60_000, logsMax: 1_000 });
  for (let team = 0; team < 40; team++) {
    for (let n = 0; n < 100_000; n++) limiter.spend(`team-${team}`, 100_000);
  }
  await keepWindow({ ...parts, limiter });
  expect(lines).toMatchObject([{ level: "warn", teams: expect.any(Number) }]);
  const second = next();
  await takeUpWindow(second);
  expect(second.limiter.look("team-39", 100_000).remaining).toBe(0);
  expect(second.limiter.look("team-0", 100_000).remaining).toBe(100_000);
  expect(second.limiter.size()).toBeGreaterThanOrEqual(16);
  await stores.close();
});

test("a fleet keeps nothing, takes up nothing, and removes what an instance alone has kept", async () => {
  const { parts, stores, lines } = await openParts();
  const fleet = { ...parts, limiter: undefined };
  parts.limiter.spend("acme", 9, 2);
  await keepWindow(parts);
  await takeUpWindow(fleet);
  expect(await stores.window.read()).toEqual([]);
  await keepWindow(fleet);
  expect(await stores.window.read()).toEqual([]);
  expect(lines).toEqual([]);
  await stores.close();
});

test("a start does not remove what another instance keeps while it takes up the last stop", async () => {
  const { parts, stores, next } = await openParts();
  parts.limiter.spend("acme", 9, 2);
  await keepWindow(parts);
  const [starting, stopping, alone] = [next(), next(), next()];
  stopping.limiter.spend("acme", 9, 3);
  const restore = async (saved: SavedWindow) => {
    starting.limiter.restore(saved);
    // The save of a stop that began before this start.
    await stores.window.keep(writeWindow(stopping.limiter.save()).pages);
  };
  await takeUpWindow({ ...starting, limiter: { ...starting.limiter, restore } });
  await takeUpWindow(alone);
  expect(alone.limiter.look("acme", 9).remaining).toBe(6);
  await stores.close();
});

test("counted requests that are taken up hold, where the store can't remove them, and the log says so", async () => {
  const { parts, stores, lines, next } = await openParts();
  parts.limiter.spend("acme", 9, 2);
  await keepWindow(parts);
  const { limiter, ...second } = next();
  const restore = async (saved: SavedWindow) => {
    limiter.restore(saved);
    await stores.close();
  };
  await takeUpWindow({ ...second, limiter: { ...limiter, restore } });
  expect(limiter.look("acme", 9).remaining).toBe(7);
  expect(lines).toMatchObject([{ level: "warn", msg: expect.stringContaining("no limit is affected") }]);
});
