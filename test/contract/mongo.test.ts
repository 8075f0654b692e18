import { afterAll, describe } from "vitest";
import type { Stores } from "#src/store/stores.ts";
import { createMongoDatabases, mongodbUri } from "../harness/mongo-databases.ts";
import { openMongoForTest } from "../harness/open-mongo.ts";
import { appStoreContract } from "./app-store.ts";
import { keyStoreContract } from "./key-store.ts";
import { memberStoreContract } from "./member-store.ts";
import { previewStoreContract } from "./preview-store.ts";
import { sessionStoreContract } from "./session-store.ts";
import { storesContract } from "./stores.ts";
import { teamStoreContract } from "./team-store.ts";
import { userStoreContract } from "./user-store.ts";

describe.skipIf(mongodbUri === "")("with a MongoDB server", () => {
  const databases = createMongoDatabases();
  afterAll(() => databases.drop());

  const uriOf = new WeakMap<Stores, string>();

  async function open(uri = databases.createUri()): Promise<Stores> {
    const stores = await openMongoForTest({ uri });
    uriOf.set(stores, uri);
    return stores;
  }

  const name = "MongoDB";
  keyStoreContract(name, () => open());
  teamStoreContract(name, () => open());
  memberStoreContract(name, () => open());
  previewStoreContract(name, () => open());
  appStoreContract(name, () => open());
  sessionStoreContract(name, () => open());
  userStoreContract(name, () => open());
  storesContract(
    name,
    () => open(),
    (closed) => open(uriOf.get(closed)),
  );
});
