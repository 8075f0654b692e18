import { expect, onTestFinished, test } from "vitest";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { countTurns } from "../../harness/counted-turns.ts";
import { auditEventOf } from "../../harness/store-records.ts";
import { createTempFolders } from "../../harness/temp-folders.ts";

const dayMs = 86_400_000;
const hourMs = 3_600_000;

async function openStores() {
  const folders = createTempFolders();
  const stores = await openSqliteStores({ dataDir: folders.create() });
  onTestFinished(async () => {
    await stores.close();
    folders.remove();
  });
  return stores;
}

test("the usage of a year, and of 34 days by the hour, is read in many turns of the event loop", async () => {
  const { usage } = await openStores();
  const counts = { acceptedCount: 1, limitedCount: 0, failedCount: 0, appMs: 1 };
  const hours = Array.from({ length: 34 * 24 }, (_, n) => ({
    ...{ teamId: "t", keyId: "k", startTimeMs: n * hourMs },
    ...counts,
  }));
  await usage.add({ incarnation: "i", number: 1, hours });
  const turns = countTurns();

  const ofHours = await usage.hours({ teamId: "t", fromMs: 0, untilMs: 34 * dayMs });
  expect(ofHours.map(({ startTimeMs }) => startTimeMs)).toEqual(hours.map((hour) => hour.startTimeMs));
  expect(turns()).toBeGreaterThanOrEqual((34 * 24) / 4 - 1);

  const before = turns();
  const ofDays = await usage.days({ teamId: "t", fromMs: 0, untilMs: 364 * dayMs });
  expect(ofDays.map(({ acceptedCount }) => acceptedCount)).toEqual(Array.from({ length: 34 }, () => 24));
  expect(turns() - before).toBeGreaterThanOrEqual(364 / 4 - 1);
});

test("an actor's events of one action are found among many, in several turns of the event loop", async () => {
  const { audit } = await openStores();
  const events = Array.from({ length: 12_000 }, (_, n) =>
    auditEventOf({
      id: `e${String(n).padStart(6, "0")}`,
      timeMs: Math.floor(n / 3),
      actor: n % 2 === 0 ? "ada" : "bob",
      action: n % 1_000 === 0 ? "rare" : "usual",
    }),
  );
  await audit.write(events);
  const turns = countTurns();

  const rare = events.filter(({ action }) => action === "rare").reverse();
  expect(await audit.list({ actor: "ada", action: "rare", limit: 100 })).toEqual(rare);
  expect(await audit.list({ actor: "bob", action: "rare", limit: 100 })).toEqual([]);
  // 6,000 events of each, at most 5,000 in a turn.
  expect(turns()).toBeGreaterThanOrEqual(3);
  const first = await audit.list({ actor: "ada", action: "rare", limit: 5 });
  expect(first).toEqual(rare.slice(0, 5));
  const [, , , , last] = first;
  const rest = await audit.list({ actor: "ada", action: "rare", limit: 100, ...(last && { after: last }) });
  expect(rest).toEqual(rare.slice(5));
});
