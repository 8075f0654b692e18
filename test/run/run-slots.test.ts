import fc from "fast-check";
import { expect, test } from "vitest";
import { bounds } from "#src/bounds.ts";
import { createRunSlots } from "#src/run/run-slots.ts";
import { createManualClock } from "../harness/manual-clock.ts";

const busy = expect.objectContaining({ reason: "APP_BUSY", retryAfterMs: 1_000, mayHaveRun: false });
const sharedMs = bounds.appSharedMs;

function openSlots(limits: { appRunsMax: number; runsMax?: number; idleAppsMax?: number }) {
  const clock = createManualClock();
  const slots = createRunSlots({ clock, runsMax: 1_000, ...limits });
  const start = (teamId: string, id = "app") => slots.acquire({ id, teamIds: [] }, teamId);
  const startMany = (teamId: string, count: number, id?: string) =>
    Array.from({ length: count }, () => start(teamId, id));
  return { clock, slots, start, startMany };
}

test("runs stay within all bounds, and no run within them is refused, whatever teams and times", () => {
  const apps = ["one", "two", "private"];
  const teams = ["a", "b", "c"];
  const step = fc.record({
    app: fc.constantFrom(...apps),
    team: fc.constantFrom(...teams),
    starts: fc.boolean(),
    waitMs: fc.constantFrom(0, 0, 0, 1, 30_000, sharedMs - 1, sharedMs),
  });
  const limits = fc.record({
    appRunsMax: fc.integer({ min: 1, max: 9 }),
    runsMax: fc.integer({ min: 1, max: 14 }),
  });
  fc.assert(
    fc.property(limits, fc.array(step, { maxLength: 120 }), (bound, steps) => {
      const { clock, slots } = openSlots(bound);
      // All runs under way and all that was asked for, kept the plain way.
      const running: { app: string; team: string; end: () => void }[] = [];
      const asked: { app: string; team: string; atMs: number }[] = [];
      for (const { app, team, starts, waitMs } of steps) {
        clock.advance(waitMs);
        const nowMs = clock.monotonicMs();
        const ofApp = running.filter((each) => each.app === app);
        const ofTeam = ofApp.filter((each) => each.team === team);
        if (!starts) {
          const [ending] = ofTeam;
          if (ending) running.splice(running.indexOf(ending), 1);
          ending?.end();
          continue;
        }
        const isShared =
          app !== "private" &&
          asked.some((each) => each.app === app && each.team !== team && nowMs - each.atMs < sharedMs);
        asked.push({ app, team, atMs: nowMs });
        const teamMax = isShared ? bound.appRunsMax - Math.floor(bound.appRunsMax / 4) : bound.appRunsMax;
        const isFree =
          ofApp.length < bound.appRunsMax && ofTeam.length < teamMax && running.length < bound.runsMax;
        const acquire = () => slots.acquire({ id: app, teamIds: app === "private" ? [team] : [] }, team);
        if (isFree) running.push({ app, team, end: acquire() });
        else expect(acquire).toThrow(busy);
      }
    }),
    { numRuns: 500 },
  );
});

test("a team alone gets all slots; with another team within the last minute, three quarters", () => {
  const { clock, start, startMany } = openSlots({ appRunsMax: 64 });
  const alone = startMany("a", 64);
  expect(() => start("a")).toThrow(busy);
  for (const end of alone) end();

  start("b")();
  startMany("a", 48);
  expect(() => start("a")).toThrow(busy);
  startMany("b", 16);
  expect(() => start("c")).toThrow(busy);

  clock.advance(sharedMs);
  expect(() => start("a")).toThrow(busy);
});

test("a team that asked and found no slot counts, so that the next free slots are kept for it", () => {
  const { clock, start, startMany } = openSlots({ appRunsMax: 4 });
  const held = startMany("a", 4);
  expect(() => start("b")).toThrow(busy);
  held[0]!();
  expect(() => start("a")).toThrow(busy);
  start("b")();
  clock.advance(sharedMs);
  start("a");
});

test("of many apps without runs only some are remembered, first those that were asked for lately", () => {
  const { clock, start, startMany } = openSlots({ appRunsMax: 4, runsMax: 10, idleAppsMax: 20 });
  for (let at = 0; at < 25; at += 1) start("b", `old-${at}`)();
  clock.advance(sharedMs);
  start("b", "lately")();
  for (let at = 0; at < 20; at += 1) start("b", `new-${at}`)();
  startMany("a", 3, "lately");
  expect(() => start("a", "lately")).toThrow(busy);
});
