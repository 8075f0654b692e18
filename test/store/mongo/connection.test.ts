import { createHook } from "node:async_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { connectMongo } from "#src/store/mongo/connection.ts";
import { createMongoDatabases } from "../../harness/mongo-databases.ts";
import { describeWith, mongodbMissing } from "../../harness/needs.ts";

describeWith(mongodbMissing)("a connection to MongoDB", () => {
  const databases = createMongoDatabases();
  afterAll(() => databases.drop());

  test("does not wake an idle process ten times a second to look at its pool", async () => {
    let looks = 0;
    const hook = createHook({
      init(_, type) {
        if (type === "Timeout" && new Error().stack?.includes("ensureMinPoolSize")) looks += 1;
      },
    }).enable();
    onTestFinished(() => void hook.disable());
    const { client } = await connectMongo(databases.createUri(), {
      selectionMsMax: 20_000,
      socketMsMax: 20_000,
    });
    onTestFinished(() => client.close());
    // Otherwise the driver calls them otherwise now, and none would be seen below.
    expect(looks).toBeGreaterThan(0);
    const [atStart, beganMs] = [looks, performance.now()];
    await sleep(2_000);
    // One in 5 s. On a busy machine the sleep may take longer.
    expect(looks - atStart).toBeLessThanOrEqual(1 + (performance.now() - beganMs) / 5_000);
  });
});
