import { afterAll } from "vitest";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import type { Stores } from "#src/store/stores.ts";
import { createTempFolders } from "../harness/temp-folders.ts";
import { everyPortContract } from "./every-port.ts";

const folders = createTempFolders();
afterAll(() => folders.remove());

const folderOf = new WeakMap<Stores, string>();

async function open(dataDir = folders.create()): Promise<Stores> {
  const stores = await openSqliteStores({ dataDir });
  folderOf.set(stores, dataDir);
  return stores;
}

everyPortContract(
  "the embedded store",
  () => open(),
  (closed) => open(folderOf.get(closed)),
);
