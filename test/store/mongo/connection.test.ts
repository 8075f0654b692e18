import { createHook } from "node:async_hooks";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { connectMongo } from "#src/store/mongo/connection.ts";
import { createMongoDatabases } from "../../harness/mongo-databases.ts";
import { describeWith, mongodbMissing } from "../../harness/needs.ts";

describeWith(mongodbMissing)("a connection to MongoDB", () => {
  const databases = createMongoDatabases();
  afterAll(() => databases.drop());

  test("does not wake an idle process ten times a second to look at its pool", async () => {
    const waitsMs: number[] = [];
    const hook = createHook({
      init(_, type, __, timer: object) {
        if (type === "Timeout" && new Error().stack?.includes("ensureMinPoolSize"))
          waitsMs.push(Number(Reflect.get(timer, "_idleTimeout")));
      },
    }).enable();
    onTestFinished(() => void hook.disable());
    const { client } = await connectMongo(databases.createUri(), {
      selectionMsMax: 20_000,
      socketMsMax: 20_000,
    });
    onTestFinished(() => client.close());
    // Otherwise the driver calls them otherwise now.
    expect(waitsMs.length).toBeGreaterThan(0);
    expect(Math.min(...waitsMs)).toBeGreaterThanOrEqual(5_000);
  });
});
