import { expect, onTestFinished, test } from "vitest";
import { ByteBudget } from "#src/limit/byte-budget.ts";
import { fail } from "#src/refusal/refusal.ts";
import { createBackgroundRuns } from "#src/run/background/background-runs.ts";
import { createRunSlots } from "#src/run/run-slots.ts";
import { createWatchRights } from "#src/run/watch-rights.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { tempFolders } from "../../harness/closed-at-end.ts";
import { createManualClock } from "../../harness/manual-clock.ts";
import { serviceCall } from "../../harness/service-call.ts";
import { newAppOf } from "../../harness/store-records.ts";

const folders = tempFolders();

test("a caller that loses its right is refused at once while the store fails, and its slot is free", async () => {
  const stores = await openSqliteStores({ dataDir: folders.create() });
  onTestFinished(() => stores.close());
  const clock = createManualClock();
  const slots = createRunSlots({ clock, appRunsMax: 1, runsMax: 1 });
  const app = { ...newAppOf({ id: "asked" }), version: 1 };
  const retries: (() => void)[] = [];
  const problems: unknown[] = [];
  let storeFails = true;
  const runs = createBackgroundRuns({
    ...{ clock, slots },
    timers: {
      after(_ms, retry) {
        retries.push(retry);
        return { cancel() {} };
      },
    },
    store: {
      ...stores.backgroundRuns,
      async remove(id) {
        if (storeFails) throw new Error("the store is away");
        await stores.backgroundRuns.remove(id);
      },
    },
    run: () => expect.unreachable("the app was called"),
    bytes: new ByteBudget(Number.POSITIVE_INFINITY),
    keptMs: 60_000,
    recordsMaxOf: async () => 10_000,
    owner: () => "one",
    announceEnd: () => {},
    watchRights: createWatchRights({ recheckMs: 1_000, mayAdmit: () => true }),
    onEnded: () => {},
    onWriteFailed: (cause) => void problems.push(cause),
  });
  onTestFinished(() => runs.close());

  const order = {
    ...{ runId: "run_1", teamId: "demo", keyId: "k", app, text: "hi" },
    async checkRight() {
      throw fail("REVOKED_API_KEY");
    },
  };
  await expect(runs.start(order, serviceCall())).rejects.toMatchObject({ reason: "REVOKED_API_KEY" });
  slots.acquire(app, "demo")();
  expect(problems).toHaveLength(1);
  expect(await stores.backgroundRuns.find("run_1")).toMatchObject({ state: "running" });

  storeFails = false;
  for (const retry of retries) retry();
  await expect.poll(() => stores.backgroundRuns.find("run_1")).toBeUndefined();
});
