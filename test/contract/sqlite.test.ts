import { afterAll } from "vitest";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import type { Stores } from "#src/store/stores.ts";
import { createTempFolders } from "../harness/temp-folders.ts";
import { appStoreContract } from "./app-store.ts";
import { keyStoreContract } from "./key-store.ts";
import { memberStoreContract } from "./member-store.ts";
import { previewStoreContract } from "./preview-store.ts";
import { sessionStoreContract } from "./session-store.ts";
import { storesContract } from "./stores.ts";
import { teamStoreContract } from "./team-store.ts";
import { userStoreContract } from "./user-store.ts";

const folders = createTempFolders();
afterAll(() => folders.remove());

const folderOf = new WeakMap<Stores, string>();

async function open(dataDir = folders.create()): Promise<Stores> {
  const stores = await openSqliteStores({ dataDir });
  folderOf.set(stores, dataDir);
  return stores;
}

const name = "the embedded store";
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
  (closed) => open(folderOf.get(closed)),
);
