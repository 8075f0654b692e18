import { randomBytes, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { MongoClient } from "mongodb";
import { expect, test } from "vitest";
import { createServiceSecrets } from "#src/keys/service-secrets.ts";
import { createControlStore } from "#src/store/mongo/control-store.ts";
import { collectionsOf } from "#src/store/mongo/documents.ts";
import { instanceFactsOf } from "../harness/instance-facts.ts";
import { describeWith, mongodbMissing } from "../harness/needs.ts";
import { type SecretPlace, secretPlaces } from "../harness/secret-places.ts";

const { embedded, onMongo } = secretPlaces();

/** Each test starts several servers. */
const longer = { timeout: 300_000 };

async function refusedToDrop(
  { command, held }: SecretPlace,
  words: RegExp,
  ...version: string[]
): Promise<void> {
  const before = held();
  const { code, stderr } = await command("secrets", "drop", ...version);
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(words) });
  expect(held()).toEqual(before);
  for (const text of before) expect(stderr).not.toContain(text);
}

/** The running server knows the old secret alone, and no key needs that yet. */
async function dropStory(place: SecretPlace) {
  const { command, held, start } = place;
  const first = await start();
  expect(await command("secrets", "rotate")).toMatchObject({ code: 0 });
  const [newest] = held();
  await refusedToDrop(place, /may still make keys with version \w{8}\. Stop it first/);
  await first.stop();

  expect(await command("secrets", "drop")).toMatchObject({
    code: 0,
    stderr: expect.stringContaining("Start Keyrun again"),
  });
  expect(held()).toEqual([newest]);
  await (await start()).stop();
}

test(
  "the secret that a running Keyrun makes keys with is not dropped, on the embedded store",
  longer,
  async () => {
    await dropStory(embedded());
  },
);

test(
  "a secret that was added is not dropped before it was promoted, and the old one goes then",
  longer,
  async () => {
    const place = embedded();
    const { command, held, secretFile, start } = place;
    await (await start()).stop();
    expect(await command("secrets", "add")).toMatchObject({ code: 0 });
    const [old, added] = held();
    const before = readFileSync(secretFile, "utf8");
    const { versions } = JSON.parse((await command("secrets", "list", "--json")).stdout);
    await refusedToDrop(place, /was added and never promoted.*`secrets promote`/);
    await refusedToDrop(place, /was added and never promoted/, versions[1]);
    expect(readFileSync(secretFile, "utf8")).toBe(before);
    // A start reads the file, and a rotation keeps the mark.
    await (await start()).stop();
    expect(await command("secrets", "rotate")).toMatchObject({ code: 0 });
    await refusedToDrop(place, /was added and never promoted/);

    expect(await command("secrets", "promote")).toMatchObject({ code: 0 });
    const [, rotated] = held();
    expect(held()).toEqual([added, rotated, old]);
    expect(await command("secrets", "drop")).toMatchObject({ code: 0 });
    expect(held()).toEqual([added, rotated]);
    expect(readFileSync(secretFile, "utf8")).toBe(`${added}\n${rotated}\n`);
  },
);

describeWith(mongodbMissing)("with a MongoDB server", () => {
  test("the secret that a running Keyrun makes keys with is not dropped, on MongoDB", longer, async () => {
    await dropStory(onMongo());
  });

  test(
    "nor that of a Keyrun alone that is suspended, or was killed and left its record",
    longer,
    async () => {
      const place = onMongo();
      const { command, start } = place;
      const suspended = await start();
      expect(await command("secrets", "rotate")).toMatchObject({ code: 0 });
      suspended.kill("SIGSTOP");
      await refusedToDrop(place, /is suspended or was killed.* Start Keyrun again/);
      suspended.kill("SIGKILL");
      await suspended.exited;
      await refusedToDrop(place, /is suspended or was killed/);
      // The next one takes the record over, and leaves without one.
      await (await start()).stop();
      expect(await command("secrets", "drop")).toMatchObject({ code: 0 });
    },
  );

  test("nor that of an instance of a fleet that is silent for the moment", longer, async () => {
    const place = onMongo({
      KEYRUN_REDIS_URL: "redis://127.0.0.1:1",
      KEYRUN_SERVICE_TOKEN: randomBytes(32).toString("base64url"),
    });
    const { command, held, settings } = place;
    const [old = ""] = held();
    const client = new MongoClient(settings.KEYRUN_MONGODB_URI ?? "");
    const control = createControlStore(collectionsOf(client.db()), {
      call: (work) => work(),
      freshRead: {},
    });
    const id = randomUUID();
    const { versions } = createServiceSecrets([Buffer.from(old, "base64url")]);
    await control.register(id, instanceFactsOf({ secretVersions: versions }));
    expect(await command("secrets", "add")).toMatchObject({ code: 0 });
    expect(await command("secrets", "promote")).toMatchObject({ code: 0 });
    await refusedToDrop(place, /The instance at 10\.0\.0\.1:8081 still makes keys with version \w{8}/);
    await control.remove(id);
    await client.close();
    expect(await command("secrets", "drop")).toMatchObject({ code: 0 });
  });
});
