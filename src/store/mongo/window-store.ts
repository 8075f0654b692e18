import type { WindowStore } from "../../limit/window-store.ts";
import { checkRecord } from "../records.ts";
import { type Collections, windowPageDocument } from "./documents.ts";
import type { StoreCall } from "./store-call.ts";

/** The window that a clean stop keeps, in MongoDB. */
export function createWindowStore({ windowPages }: Collections, call: StoreCall): WindowStore {
  const removeAll = () => call(() => windowPages.deleteMany({}));
  const check = (page: unknown) => checkRecord(windowPageDocument, page, "windowPages");

  return {
    async keep(pages) {
      await removeAll();
      for (const [number, text] of pages.entries()) {
        const page = check({ _id: number, text });
        await call(() => windowPages.insertOne(page));
      }
    },
    async take() {
      const documents = await call(() => windowPages.find().sort({ _id: 1 }).toArray());
      if (documents.length > 0) await removeAll();
      return documents.map((document) => check(document).text);
    },
  };
}
