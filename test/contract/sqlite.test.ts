import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import type { Stores } from "#src/store/stores.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { everyPortContract } from "./every-port.ts";

const folders = tempFolders();

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
