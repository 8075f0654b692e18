import { randomBytes } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import { createAuditLog, createEventIds } from "#src/audit/audit-log.ts";
import { auditBounds } from "#src/audit/audit-store.ts";
import { createLog } from "#src/log/log.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { auditEventOf } from "../harness/store-records.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

const dayMs = 86_400_000;

test("one sweep removes all events that are too old, and no other", async () => {
  const folders = createTempFolders();
  onTestFinished(() => folders.remove());
  const stores = await openSqliteStores({ dataDir: folders.create() });
  onTestFinished(() => stores.close());
  const clock = createManualClock();
  const nowMs = clock.unixMs();
  const old = Array.from({ length: 2 * auditBounds.sweepMax + 1 }, (_, n) => ({ id: `old-${n}` }));
  await stores.audit.write(old.map(({ id }) => auditEventOf({ id, timeMs: nowMs - 2 * dayMs - 1 })));
  await stores.audit.write([auditEventOf({ id: "young", timeMs: nowMs })]);
  const asked: number[] = [];
  const audit = createAuditLog({
    ...{ clock, keptDays: 2, sweepMs: 100, newId: createEventIds(randomBytes) },
    log: createLog({ level: "silent", destination: { write: () => {} } }),
    store: {
      ...stores.audit,
      async deleteBefore(query) {
        asked.push(query.beforeMs);
        const deleted = await stores.audit.deleteBefore(query);
        // A sweep reads the clock once, so another one would ask for a later time.
        if (asked.length < 3) clock.stepWall(1);
        return deleted;
      },
    },
  });
  audit.start();
  onTestFinished(() => audit.close());
  await expect
    .poll(async () => (await stores.audit.list({ limit: 9_999 })).map(({ id }) => id))
    .toEqual(["young"]);
  expect(new Set(asked.slice(0, 3)).size).toBe(1);
});
