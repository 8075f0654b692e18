import { onTestFinished } from "vitest";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

/** A new embedded store, which the end of the test closes and removes. */
export async function openTestStores() {
  const folders = createTempFolders();
  const stores = await openSqliteStores({ dataDir: folders.create() });
  const close = async () => {
    await stores.close();
    folders.remove();
  };
  onTestFinished(close);
  return { ...stores, close };
}
