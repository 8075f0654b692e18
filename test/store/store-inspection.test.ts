import { afterAll, describe, expect, test } from "vitest";
import { systemClock } from "#src/base/clock.ts";
import { inspectStore, openStores } from "#src/store/open-stores.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { createMongoDatabases } from "../harness/mongo-databases.ts";
import { storesOfTier } from "../harness/needs.ts";
import { keyRecordOf, serviceTokenRecordOf } from "../harness/store-records.ts";

const folders = tempFolders();
const databases = createMongoDatabases();
afterAll(async () => {
  await databases.drop();
});

describe.each(
  storesOfTier<[string, () => string | undefined]>(
    ["the embedded store", () => undefined],
    ["MongoDB", databases.createUri],
  ),
)("a look at %s", (_, uri) => {
  test("names each secret that a key or an accepted service token needs, once, so that none of them is dropped", async () => {
    const config = { dataDir: folders.create(), mongodbUri: uri(), sharedLimit: undefined };
    const events = { onWaiting: () => {}, onRenewalFailed: () => {}, onLost: () => {} };
    const { keys, serviceTokens, close } = await openStores(config, { clock: systemClock, events });
    const insert = (id: string, secretVersion: string) =>
      serviceTokens.insert(serviceTokenRecordOf({ id, name: id, secretVersion }), { acceptedMax: 5 });
    await keys.insert(keyRecordOf({ id: "k", teamId: "acme", secretVersion: "1" }), { activeMax: 5 });
    await insert("a", "1");
    await insert("b", "2");
    await insert("c", "3");
    await serviceTokens.revoke({ tokenId: "c", revokeTimeMs: 1, revokedBy: "ada@example.com" });
    await close();
    const { secretVersions } = await inspectStore(config, { msMax: 5_000 });
    expect([...secretVersions].sort()).toEqual(["1", "2"]);
  });
});
