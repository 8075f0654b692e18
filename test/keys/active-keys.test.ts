import { expect, test } from "vitest";
import { createActiveKeys } from "#src/keys/last-uses.ts";
import { createManualClock } from "../harness/manual-clock.ts";

const withinMs = 300_000;

function setUp(keysMax = 1_000) {
  const clock = createManualClock();
  const written: ReadonlyMap<string, number>[] = [];
  const active = createActiveKeys({ clock, keysMax });
  const store = active.noting({ recordUses: async (uses) => void written.push(uses) });
  const use = (...keyIds: string[]) =>
    store.recordUses(new Map(keyIds.map((keyId) => [keyId, clock.unixMs()])));
  return { clock, written, active, store, use };
}

test("a key is active from its use on for five minutes, however often it is used", async () => {
  const { clock, active, use } = setUp();
  await use("a", "b");
  await use("a");
  expect(active.count()).toBe(2);
  clock.advance(withinMs / 2);
  await use("b");
  clock.advance(withinMs / 2);
  expect(active.count()).toBe(2);
  clock.advance(1);
  expect(active.count()).toBe(1);
  clock.advance(withinMs);
  expect(active.count()).toBe(0);
});

test("every use reaches the store, and its errors reach the caller", async () => {
  const { written, use, active } = setUp();
  await use("a");
  expect(written.map((uses) => [...uses.keys()])).toEqual([["a"]]);
  const failing = active.noting({ recordUses: () => Promise.reject(new Error("full")) });
  await expect(failing.recordUses(new Map([["c", 0]]))).rejects.toThrow("full");
});

test("a write that is repeated keeps no key active", async () => {
  const { clock, active, store } = setUp();
  const uses = new Map([["a", clock.unixMs()]]);
  for (let n = 0; n < 10; n++) {
    await store.recordUses(uses);
    clock.advance(withinMs / 9);
  }
  expect(active.count()).toBe(0);
});

test("no more keys are known than the bound", async () => {
  const { active, use } = setUp(10);
  for (let n = 0; n < 50; n++) await use(`key-${n}`);
  expect(active.count()).toBe(10);
});
