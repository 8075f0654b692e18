import { randomBytes, randomUUID } from "node:crypto";
import { MongoClient } from "mongodb";
import { expect, test } from "vitest";
import { createServiceSecrets } from "#src/keys/service-secrets.ts";
import { createControlStore } from "#src/store/mongo/control-store.ts";
import { collectionsOf } from "#src/store/mongo/documents.ts";
import { instanceFactsOf } from "../harness/instance-facts.ts";
import { keyrunPlaces, kill } from "../harness/keyrun-places.ts";
import { describeWith, mongodbMissing } from "../harness/needs.ts";
import { dropStory, refusedToDrop, rotationStory, secretPlaces } from "../harness/secret-places.ts";

const { onMongo } = secretPlaces();
const { place: processesOn } = keyrunPlaces();

describeWith(mongodbMissing)("with a MongoDB server", () => {
  test("keys made before and after a rotation work after a restart", async () => {
    await rotationStory(onMongo());
  });

  test("the secret that a running Keyrun makes keys with is not dropped, on MongoDB", async () => {
    await dropStory(onMongo());
  });

  test("nor that of a Keyrun alone that is suspended, or was killed and left its record", async () => {
    const place = onMongo();
    const { command } = place;
    const { start } = processesOn(place.settings, place.settings.KEYRUN_DATA_DIR);
    const suspended = await start();
    expect(await command("secrets", "rotate")).toMatchObject({ code: 0 });
    suspended.kill("SIGSTOP");
    await refusedToDrop(place, /is suspended or was killed.* Start Keyrun again/);
    await kill(suspended);
    await refusedToDrop(place, /is suspended or was killed/);
    // The next one takes the record over, and leaves without one.
    const next = await start();
    next.kill("SIGTERM");
    expect(await next.exited).toMatchObject({ code: 0 });
    expect(await command("secrets", "drop", "--yes")).toMatchObject({ code: 0 });
  });

  test("nor that of an instance of a fleet that is silent for the moment", async () => {
    const place = onMongo({
      KEYRUN_REDIS_URL: "redis://127.0.0.1:1",
      KEYRUN_SERVICE_TOKEN: randomBytes(32).toString("base64url"),
    });
    const { command, held, settings } = place;
    const [old = ""] = held();
    const client = new MongoClient(settings.KEYRUN_MONGODB_URI ?? "");
    const control = createControlStore(collectionsOf(client.db()), {
      call: (work) => work(),
      readOptions: {},
    });
    const id = randomUUID();
    const { versions } = createServiceSecrets([Buffer.from(old, "base64url")]);
    await control.register(id, instanceFactsOf({ secretVersions: versions }));
    expect(await command("secrets", "add")).toMatchObject({ code: 0 });
    expect(await command("secrets", "promote")).toMatchObject({ code: 0 });
    await refusedToDrop(place, /The instance at 10\.0\.0\.1:8081 still makes keys with version \w{8}/);
    await control.remove(id);
    await client.close();
    expect(await command("secrets", "drop", "--yes")).toMatchObject({ code: 0 });
  });
});
