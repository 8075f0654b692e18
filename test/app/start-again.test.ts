import { expect, test } from "vitest";
import { systemClock } from "#src/base/clock.ts";
import { bounds } from "#src/bounds.ts";
import { fail, unavailable } from "#src/refusal/refusal.ts";
import { StartRefused } from "#src/refusal/start-refused.ts";
import type { Stores } from "#src/store/stores.ts";
import { startKeyrun } from "../harness/keyrun.ts";

/** Stores that fail in the middle of a start, until they have been asked so often. */
function failing(times: number, refusal = unavailable({ cause: new Error("no primary") })) {
  const seen = { starts: 0, open: 0 };
  const onStores = (stores: Stores): Stores => {
    seen.starts += 1;
    seen.open += 1;
    return {
      ...stores,
      async isEmpty() {
        if (seen.starts <= times) throw refusal;
        return stores.isEmpty();
      },
      async close() {
        seen.open -= 1;
        await stores.close();
      },
    };
  };
  return { seen, onStores };
}

const refusalOf = (starting: Promise<unknown>) => starting.catch((thrown: unknown) => thrown);

test("a start that the store ended begins anew, with nothing left of the one before", async () => {
  const { seen, onStores } = failing(2);
  const keyrun = await startKeyrun({ onStores });
  expect(seen).toEqual({ starts: 3, open: 1 });
  const lines = keyrun.logLines.filter((line) => line.includes("the store failed during the start"));
  expect(lines).toHaveLength(2);
  for (const line of lines) expect(line).toContain("no primary");
  await keyrun.close();
  expect(seen.open).toBe(0);
});

test("past the time that a start may take it is refused, and says the cause", async () => {
  const { seen, onStores } = failing(Number.POSITIVE_INFINITY);
  // Each start takes a third of it.
  let leapMs = 0;
  const clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + leapMs };
  const leaping = (stores: Stores) => {
    leapMs += bounds.storeStartMsMax / 3 + 1;
    return onStores(stores);
  };
  const refused = await refusalOf(startKeyrun({ clock, onStores: leaping }));
  expect(refused).toBeInstanceOf(StartRefused);
  expect(String(refused)).toContain("The store failed during the start (no primary).");
  expect(seen).toEqual({ starts: 3, open: 0 });
});

test("a start on a full disk is refused at once", async () => {
  const { seen, onStores } = failing(1, fail("STORE_FULL", { cause: new Error("disk full") }));
  expect(await refusalOf(startKeyrun({ onStores }))).toBeInstanceOf(StartRefused);
  expect(seen).toEqual({ starts: 1, open: 0 });
});
